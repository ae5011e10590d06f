# shellcheck shell=sh
# The first process of the node's namespaces. It makes what kubelet and containerd would change on
# the host private, says so on standard output, and ends when its standard input does: the kernel
# then ends every process inside and drops every mount.
set -eu

# What tells its size to kubelet, or is mounted over by containerd, lies on a disk.
mount -t tmpfs node-run /run
mkdir /run/disk
mount --bind "$NODE_DISK" /run/disk

# Device nodes of its own, to which tests add theirs.
mkdir /run/dev
mount -t tmpfs -o mode=755 node-dev /run/dev
cp -ax /dev/. /run/dev/
mkdir -p /run/dev/pts /run/dev/shm
mount --rbind /dev/pts /run/dev/pts
mount -t tmpfs -o mode=1777 node-shm /run/dev/shm
mount --move /run/dev /dev

# A view of /sys that shows this network, with the host's control groups left where they are.
mkdir /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --move /run/cgroup /sys/fs/cgroup

# Folders that are at fixed places whatever kubelet is told, such as its device-plugins. The rest
# of /var/lib stays in sight: a checkout may lie there.
mkdir /run/upper
mount -t tmpfs node-upper /run/upper
mkdir /run/upper/data /run/upper/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/upper/data,workdir=/run/upper/work node-var /var/lib
for folder in kubelet containerd; do
    mkdir -p "/run/disk/$folder" "/var/lib/$folder"
    mount --bind "/run/disk/$folder" "/var/lib/$folder"
done
mount -t tmpfs node-log /var/log

# Kubelet writes these at every start, for the whole machine: here it writes to copies.
mkdir /run/sysctl
for key in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    copy=/run/sysctl/$(echo "$key" | tr / .)
    cat "/proc/sys/$key" >"$copy"
    mount --bind "$copy" "/proc/sys/$key"
done

# Nothing inside has business here; an attempt shows as an error instead of a change of the host.
for folder in /etc /opt /usr; do
    mount --bind "$folder" "$folder"
    mount -o remount,bind,ro "$folder"
done

# Pods may ask for mounts that propagate: to this node, not to the host.
mount --make-rshared /

# One uplink with the default route: an address for kubelet to be found at.
ip link set lo up
ip link add uplink type veth peer name switch
ip address add "$NODE_ADDRESS/24" dev uplink
ip link set uplink up
ip link set switch up
ip route add default dev uplink

echo ready
exec env --ignore-signal=CHLD cat
