#!/bin/busybox sh
# The init of the initramfs: load modules, mount an overlay of the read-only root and a tmpfs, then exec the agent.
bb=/bin/busybox
stop() { echo "handrail: $*"; $bb reboot -f; }
$bb mkdir -p /proc /sys /dev /lower /fresh /new
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
while read -r module; do $bb insmod "/modules/$module" || stop "no module $module"; done </modules/order
case " $($bb cat /proc/cmdline) " in *" handrail.probe "*) stop "probe answered" ;; esac
tries=0
until root=$($bb grep -l '^root$' /sys/block/*/serial 2>/dev/null); do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || stop "there is no root disk"
    $bb usleep 10000
done
root=${root#/sys/block/}
$bb mount -t ext4 -o ro "/dev/${root%/serial}" /lower || stop "the root cannot be mounted"
$bb mount -t tmpfs -o mode=755 fresh /fresh
$bb mkdir /fresh/upper /fresh/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/fresh/upper,workdir=/fresh/work overlay /new || stop "no overlay"
$bb mount -t tmpfs -o mode=755,nosuid,nodev run /new/run
$bb mkdir -p /new/run/handrail /new/workspace /new/home/agent
$bb cp -r /handrail/* /new/run/handrail/
for place in proc sys dev; do $bb mount --move /$place /new/$place; done
exec $bb switch_root /new /usr/bin/python3 -I -S /run/handrail/agent.py
