// Adds up all ranks by oneCCL: `oneccl FILE`, which has the address of the first.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <oneapi/ccl.hpp>

static ccl::shared_ptr_class<ccl::kvs> meet(int rank, const std::string &file)
{
    if (rank == 0) {
        auto kvs = ccl::create_main_kvs();
        auto address = kvs->get_address();
        std::ofstream(file + ".part", std::ios::binary).write(address.data(), address.size());
        rename((file + ".part").c_str(), file.c_str());
        return kvs;
    }
    ccl::kvs::address_type address;
    while (access(file.c_str(), R_OK)) usleep(20000);
    std::ifstream(file, std::ios::binary).read(address.data(), address.size());
    return ccl::create_kvs(address);
}

int main(int, char **words)
{
    int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
    ccl::init();
    auto comm = ccl::create_communicator(size, rank, meet(rank, words[1]));
    std::vector<int> own(4, rank), total(4);
    ccl::allreduce(own.data(), total.data(), own.size(), ccl::reduction::sum, comm).wait();
    printf("rank %d of %d: %d\n", rank, size, total[0]);
}
