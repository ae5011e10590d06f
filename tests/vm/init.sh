#!/bin/busybox sh
# First program of the virtual machine. The host's whole file system becomes the root, read-only
# below and a memory file system on top, so that the checkout, the virtual environment and the
# interpreter have the paths they have on the host. Then what the host asked for runs as PID 1.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
echo "kernel up at $(cut -d' ' -f1 /proc/uptime) s"

while read -r module; do
  insmod "/modules/$module.ko" || echo "module $module was refused"
done </modules/order

give_up() {
  echo "$1"
  echo o >/proc/sysrq-trigger
  sleep 60
}
share=trans=virtio,version=9p2000.L,msize=1048576
mount -t 9p -o "$share,ro,cache=loose" host /lower || give_up "the host's file system is not there"
mount -t tmpfs upper /upper
mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work root /root ||
  give_up "the overlay was refused"

mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /root/run
mkdir /root/run/tmp /root/run/results
cp /bin/busybox /root/run/busybox
mount -t 9p -o "$share,cache=none" results /root/run/results || give_up "no folder for results"
for kept in proc sys dev; do
  mount --move "/$kept" "/root/$kept"
done
ip link set lo up
exec switch_root /root /bin/sh /run/results/start.sh </dev/console >/dev/console 2>&1
