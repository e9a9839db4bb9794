package sysdump

// eachLink is a script that runs a command for each link of the node whose directory in sysfs has a file, "" for all.
func eachLink(with, command string) string {
	return `for path in /sys/class/net/*; do [ -e "$path` + with + `" ] || continue; link="${path##*/}"; echo "# $link"; ` + command + `; done 2>&1`
}

// kernelLog has the lines of the kernel's log that name a driver of a link: other lines may have what is not the network's.
const kernelLog = `drivers=$(for path in /sys/class/net/*/device/driver; do [ -e "$path" ] && basename "$(readlink -f "$path")"; done | sort -u)
[ -n "$drivers" ] || { echo "# no link has a driver with a device"; exit 0; }
dmesg | grep -F "$drivers" | tail -n 2000`
