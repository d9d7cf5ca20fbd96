package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin offers fake devices to the real kubelet over the real device-plugin
// API. An allocation hands the container what a vendor's plugin would: an
// environment variable that lists the devices, their device nodes, and the
// driver's library.
type plugin struct {
	api.UnimplementedDevicePluginServer
	resource   string
	count      int
	prefix     string // of an id; the device's index follows
	env        string // NVIDIA_VISIBLE_DEVICES, or empty for none
	nodePath   string // /dev/nvidia%d, or empty for none
	hostNode   string // a node of the host that stands in for the device
	library    string // HOSTPATH:CONTAINERPATH of the driver's library, or empty for none
	brokenFile string // says which device is promised and not handed over: an index, "next" or nothing
	mutex      sync.Mutex
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	var devices []*api.Device
	for i := range p.count {
		devices = append(devices, &api.Device{ID: p.prefix + strconv.Itoa(i), Health: api.Healthy})
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		out, err := p.handOver(container.DevicesIds)
		if err != nil {
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, out)
	}
	return response, nil
}

// handOver is one container's share: everything for each device, but for the broken one's node.
func (p *plugin) handOver(ids []string) (*api.ContainerAllocateResponse, error) {
	broken := p.broken(ids)
	fmt.Printf("allocated %s withheld %s\n", strings.Join(ids, ","), broken)
	out := &api.ContainerAllocateResponse{Envs: map[string]string{}}
	if p.env != "" {
		out.Envs[p.env] = strings.Join(ids, ",")
	}
	if host, container, found := strings.Cut(p.library, ":"); found {
		out.Mounts = []*api.Mount{{HostPath: host, ContainerPath: container, ReadOnly: true}}
	}
	for _, id := range ids {
		index, err := strconv.Atoi(strings.TrimPrefix(id, p.prefix))
		if err != nil {
			return nil, err
		}
		if p.nodePath != "" && id != broken {
			out.Devices = append(out.Devices, &api.DeviceSpec{
				HostPath: p.hostNode, ContainerPath: fmt.Sprintf(p.nodePath, index), Permissions: "rw"})
		}
	}
	return out, nil
}

// broken is the id that the file names now. "next" stands for the first device
// of this very allocation, once: the file is emptied.
func (p *plugin) broken(ids []string) string {
	content, _ := os.ReadFile(p.brokenFile) // no file: nothing is broken
	switch word := strings.TrimSpace(string(content)); word {
	case "":
		return ""
	case "next":
		_ = os.WriteFile(p.brokenFile, nil, 0o644)
		return ids[0]
	default:
		return p.prefix + word
	}
}

// serve answers the kubelet on a socket in its device-plugin folder, and returns the socket's name.
func (p *plugin) serve(dir string) (string, error) {
	socket := strings.NewReplacer("/", "-", ".", "-").Replace(p.resource) + ".sock"
	path := filepath.Join(dir, socket)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	return socket, nil
}

// register tells the kubelet which resource the socket stands for.
func (p *plugin) register(dir, socket string) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: socket, ResourceName: p.resource, Options: &api.DevicePluginOptions{}},
		grpc.WaitForReady(true))
	return err
}

func devicePlugin(args []string) int {
	p := &plugin{hostNode: "/dev/null"}
	flags := flag.NewFlagSet("device-plugin", flag.ExitOnError)
	flags.StringVar(&p.resource, "resource", "nvidia.com/gpu", "extended resource to offer")
	flags.IntVar(&p.count, "count", 4, "number of devices")
	flags.StringVar(&p.prefix, "id-prefix", "GPU-00000000-0000-0000-0000-00000000000", "a device's id is this, then its index")
	flags.StringVar(&p.env, "env", "NVIDIA_VISIBLE_DEVICES", "variable that lists a container's devices")
	flags.StringVar(&p.nodePath, "node", "/dev/nvidia%d", "path of a device's node in the container")
	flags.StringVar(&p.library, "library", "", "HOSTPATH:CONTAINERPATH of the driver's library")
	flags.StringVar(&p.brokenFile, "broken-file", "", "file that says which device is promised and not handed over")
	dir := flags.String("dir", api.DevicePluginPath, "kubelet's device-plugin folder")
	_ = flags.Parse(args)

	socket, err := p.serve(*dir)
	if err == nil {
		err = p.register(*dir, socket)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "device-plugin:", err)
		return 1
	}
	fmt.Println("device-plugin:", p.count, p.resource, "registered")
	select {}
}
