package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

const (
	diskSize = 12 << 30 // of a sparse file
	unitDir  = "/run/systemd/system"
	// erasures is a list of directories and files, one a line, that are removed before the next boot.
	erasures = "erase"
)

// drive is the file of the machine's disk, made when there is none.
func (s Spec) drive() (string, error) {
	path := s.Disk()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	partial := path + ".partial"
	file, err := os.Create(partial)
	if err != nil {
		return "", err
	}
	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return "", err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", partial).CombinedOutput(); err != nil {
		return "", fmt.Errorf("making the file system of %s: %w: %s", path, err, out)
	}
	return path, os.Rename(partial, path)
}

// Disk is the file with what a machine with systemd keeps.
func (s Spec) Disk() string { return filepath.Join(s.Dir, "disk.img") }

// Erase removes a file or directory of a machine with systemd before its next boot.
func (s Spec) Erase(path string) error {
	list, err := os.OpenFile(filepath.Join(s.Config(), erasures), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(list, filepath.Join("/", path))
	return errors.Join(err, list.Close())
}

// hostJob is the job of a machine with systemd.
func (s Spec) hostJob(encoded string) vm.Job {
	job := vm.Job{
		Systemd: true, Prepare: []string{filepath.Base(s.VM.Command), "machine", "prepare", encoded},
		Disk: true, Apart: []string{containerdDir},
		Shares: []vm.Share{
			{From: s.Config(), To: configDir, Writable: true},
			{From: s.Logs(), To: "/var/log", Writable: true},
		},
	}
	for _, bind := range s.Binds {
		job.Shares = append(job.Shares, vm.Share{From: bind.From, To: bind.To, Writable: !bind.ReadOnly})
	}
	return job
}

// prepare makes the machine a host with a name, an address and services, before systemd starts.
func prepare(spec Spec) error {
	services, err := readServices(servicesFile)
	if err != nil {
		return err
	}
	if err := erase(filepath.Join(configDir, erasures)); err != nil {
		return err
	}
	if err := kernelSettings(); err != nil {
		return fmt.Errorf("setting the kernel up: %w", err)
	}
	if err := cables(false); err != nil {
		return fmt.Errorf("laying the cable for commands: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv("PATH", Path); err != nil { // where services are looked for
		return err
	}
	files := map[string]string{
		"/etc/hostname": spec.Name + "\n",
		"/etc/NetworkManager/system-connections/uplink.nmconnection": spec.VM.connection(),
		unitDir + "/lab-commands.service":                            commandsUnit(program),
	}
	wanted := map[string]string{"lab-commands": "sysinit"}
	after := "NetworkManager.service"
	for _, service := range services {
		text, err := service.unit(after)
		if err != nil {
			return err
		}
		after += " " + service.Name + ".service"
		files[unitDir+"/"+service.Name+".service"] = text
		wanted[service.Name] = "multi-user"
	}
	for path, text := range files {
		if err := writeFile(path, text); err != nil {
			return err
		}
	}
	return enable(wanted)
}

// erase removes what the list at path has, and the list.
func erase(path string) error {
	list, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for name := range strings.FieldsSeq(string(list)) {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return errors.Join(err, os.Remove(path))
}

func readServices(path string) ([]Service, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var services []Service
	return services, json.Unmarshal(data, &services)
}

// writeFile makes a file that only root reads, as NetworkManager demands of connections.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// enable has targets want services.
func enable(wanted map[string]string) error {
	for name, target := range wanted {
		dir := filepath.Join(unitDir, target+".target.wants")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(unitDir, name+".service"), filepath.Join(dir, name+".service")); err != nil {
			return err
		}
	}
	return nil
}

// connection is the host's own configuration of its NIC: a keyfile of NetworkManager, see nm-settings-keyfile(5).
func (v *VM) connection() string {
	var text strings.Builder
	fmt.Fprintf(&text, "[connection]\nid=uplink\ntype=ethernet\n[ethernet]\nmac-address=%s\n", vm.CableMAC(0))
	for _, family := range []string{"ipv4", "ipv6"} {
		method, lines := "disabled", ""
		if family == "ipv6" {
			method = "link-local"
		}
		for _, addr := range v.Addresses {
			if addr.Addr().Is4() == (family == "ipv4") {
				method = "manual"
				lines += fmt.Sprintf("address1=%s\n", addr)
			}
		}
		for _, gateway := range v.Gateways {
			if gateway.Is4() == (family == "ipv4") {
				lines += fmt.Sprintf("gateway=%s\n", gateway)
			}
		}
		fmt.Fprintf(&text, "[%s]\nmethod=%s\n%s", family, method, lines)
	}
	return text.String()
}

// commandsUnit takes commands from the beginning of a boot to its end.
func commandsUnit(program string) string {
	return "[Unit]\nDescription=Commands of the lab\nDefaultDependencies=no\n" +
		"[Service]\nExecStart=" + program + " machine commands\nEnvironment=HOME=/root \"PATH=" + Path + "\"\nRestart=always\n"
}

// unit is the service as a host has it: its processes are not ended with it, as those of containers.
func (s Service) unit(after string) (string, error) {
	path, err := exec.LookPath(s.Args[0])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("[Unit]\nDescription=%[1]s\nAfter=%[4]s\n"+
		"[Service]\nExecStart=%[2]s\nEnvironment=HOME=/root \"PATH=%[3]s\"\nRestart=always\nRestartSec=1\nDelegate=yes\nKillMode=process\n"+
		"LimitNOFILE=1048576\nTasksMax=infinity\nStandardOutput=append:/var/log/%[1]s.log\nStandardError=inherit\n",
		s.Name, strings.Join(append([]string{path}, s.Args[1:]...), " "), Path, after), nil
}
