# Removes the cgroup $1 and all below it. $2 is an empty folder. Runs in a mount namespace of its own.
set -e
mount --make-rprivate /
mount -t cgroup2 cgroup2 "$2"
if [ -d "$2/$1" ]; then find "$2/$1" -depth -type d -exec rmdir {} +; fi
