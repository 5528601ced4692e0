# Runs as the first process of new mount, PID, network, UTS and IPC namespaces, and becomes systemd.
# $1 is the name of the cgroup that it makes for itself.
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir /run/cgroup
mount -t cgroup2 cgroup2 /run/cgroup
mkdir "/run/cgroup/$1"
echo 0 >"/run/cgroup/$1/cgroup.procs"
umount /run/cgroup
mount -t sysfs sysfs /sys

# Changes in /etc stay in memory.
mkdir -p /run/etc/upper /run/etc/work
mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work overlay /etc
echo 0123456789abcdef0123456789abcdef >/etc/machine-id

# Nodes for devices that every program expects, and none of the machine's disks and terminals.
mkdir /run/dev
mount -t tmpfs -o mode=755 tmpfs /run/dev
mkdir /run/dev/pts /run/dev/shm
while read -r name major minor; do
	mknod -m 666 "/run/dev/$name" c "$major" "$minor"
done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
ln -s /proc/self/fd /run/dev/fd
mount --move /run/dev /dev
ip link set lo up 2>/dev/null || true # iproute2 may be missing

# Only the units below exist.
for dir in /usr/lib/systemd/system /lib/systemd/system /usr/lib/systemd/system-generators /lib/systemd/system-generators /etc/systemd/system; do
	if [ -d "$dir" ]; then mount -t tmpfs -o mode=755 tmpfs "$dir"; fi
done
for name in sysinit basic shutdown; do
	printf '[Unit]\nDefaultDependencies=no\n' >"/etc/systemd/system/$name.target"
done
printf '[Unit]\nDefaultDependencies=no\nWants=dbus.service\n' >/etc/systemd/system/test.target
cat >/etc/systemd/system/dbus.socket <<END
[Unit]
DefaultDependencies=no
[Socket]
ListenStream=/run/dbus/system_bus_socket
END
cat >/etc/systemd/system/dbus.service <<END
[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
Type=notify
NotifyAccess=main
ExecStart=dbus-daemon --config-file=/run/bus.conf --address=systemd: --nofork --nopidfile --systemd-activation
END
cat >/run/bus.conf <<END
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
  </policy>
  <includedir>/usr/share/dbus-1/system.d</includedir>
</busconfig>
END
systemd=/usr/lib/systemd/systemd
[ -x "$systemd" ] || systemd=/lib/systemd/systemd
# systemd takes the cgroup in which this namespace is made for the root of all cgroups.
exec unshare --cgroup sh -c 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec env -i container=portolan-test PATH="$PATH" "$0" --system --unit=test.target --log-target=null --show-status=0' "$systemd"
