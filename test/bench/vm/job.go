package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Names in the directory that host and machine share, and the tags under which
// the machine finds its file systems.
const (
	InitFile   = "init"
	jobFile    = "job.json"
	statusFile = "status"
	filesDir   = "files"

	JobTag  = "job"
	RootTag = "root"
	// OutputPort is the virtio port for the command's output.
	OutputPort = "/dev/vport0p1"
	// FilesDir is where Job.Files are in the machine, and first in PATH.
	FilesDir = "/job/" + filesDir
	// Drive is the machine's device for Config.Drive.
	Drive = "/dev/vda"
	// DiskDir is a directory of the host that outlives the machine.
	DiskDir = "/disk"
)

// Job is what the machine does.
type Job struct {
	// Args is the command; its first word is looked up in FilesDir, too.
	Args []string
	// Dir is the working directory, / when empty.
	Dir string
	Env []string
	// Module is the NICs' driver, a name in FilesDir; VFs is how many each NIC
	// gets before the command begins, Switchdev whether it is switched over first.
	// The last NICs, Bare of them, get the driver only.
	Module    string
	VFs       int
	Switchdev bool
	Bare      int
	// Systemd makes systemd the first process; the command is then a unit of it. With Prepare there is no such unit:
	// that command runs before systemd, and what units there are is its affair.
	Systemd bool
	Prepare []string
	// Disk says that everything the machine changes is on Config.Drive, and is there at the next boot. Apart are
	// directories that are on the disk itself; for the others the disk is a layer over the root file system.
	Disk  bool
	Apart []string
	// Shares are directories of the host. The tag of the n-th is ShareTag(n).
	Shares []Share
}

// Share is a directory of the host, From, that the machine has as To.
type Share struct {
	From, To string
	Writable bool
}

// ShareTag is the name of the n-th share.
func ShareTag(n int) string { return fmt.Sprintf("share%d", n) }

// ReadJob is for the machine: dir is what the host shares with it.
func ReadJob(dir string) (Job, error) {
	var job Job
	data, err := os.ReadFile(filepath.Join(dir, jobFile))
	if err != nil {
		return job, err
	}
	return job, json.Unmarshal(data, &job)
}

func writeJob(dir string, job Job) error {
	data, err := json.Marshal(job)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, jobFile), data, 0o644)
}

// WriteStatus is for the machine: how the command ended.
func WriteStatus(dir string, exit int) error {
	return os.WriteFile(filepath.Join(dir, statusFile), []byte(fmt.Sprint(exit)), 0o644)
}

func readStatus(dir string) (int, error) {
	data, err := os.ReadFile(filepath.Join(dir, statusFile))
	if err != nil {
		return 0, err
	}
	var exit int
	if _, err := fmt.Sscan(string(data), &exit); err != nil {
		return 0, fmt.Errorf("reading the exit status %q: %w", data, err)
	}
	return exit, nil
}
