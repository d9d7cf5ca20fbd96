# Shared by the scripts in this folder: where things lie, and how they fail.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${K8SEL_TEST_CACHE:-$HOME/.cache/k8sel-testbed} # survives runs: programs, images, torch
bin=$cache/bin
images=$cache/images
run=$cache/run # one cluster's state; there is at most one cluster on a machine
ns=box         # its network namespace
host=10.99.0.1 # the node's address in it, reachable from this machine too
PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin

say() { echo "cluster: $*" >&2; }
fail() { say "$*"; exit 1; }

# quietly COMMAND...: its output goes to a log, whose end is shown if it fails.
quietly() {
  "$@" > "$cache/$1.log" 2>&1 || { tail -n 20 "$cache/$1.log" >&2; fail "$1 failed; its whole output: $cache/$1.log"; }
}

# need PROGRAM PACKAGE: PACKAGE is how Debian calls it.
need() {
  command -v "$1" > /dev/null || fail "$1 is missing: apt-get install $2"
}

# stamped NAME: whether NAME was made from the inputs on standard input; `stamp NAME` remembers that it now is.
stamped() { sha256sum > "$cache/$1.new" && cmp -s "$cache/$1.new" "$cache/$1.stamp"; }
stamp() { mv "$cache/$1.new" "$cache/$1.stamp"; }

inside() { nsenter --net=/run/netns/$ns "$@"; }
kubectl() { NO_PROXY=$host no_proxy=$host "$bin/kubectl" --kubeconfig "$run/kubeconfig" "$@"; }

# await WHAT COMMAND...: until it succeeds, at most two minutes.
await() {
  local what=$1 end=$((SECONDS + 120)); shift
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "no $what after two minutes; the logs are $run/*.log"
    sleep .1
  done
}
