package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config is the machine.
type Config struct {
	// Arch is as Go names it; "": amd64.
	Arch               string
	Kernel, Root, Init string // files and a directory of the host
	// Files are programs and data of the host that the job uses.
	Files  []string
	NICs   int
	Memory int // MB
	// Timeout is for all of it, from switching on; 0 is no limit.
	Timeout time.Duration
	// Console is a file for what the kernel says, when not "".
	Console string
	// Drive is a file with an ext4 file system, which outlives the machine. "": there is none.
	Drive string
	// Reboots: a machine that reboots does so, with the same job. Otherwise it ends.
	Reboots bool
	// Cables are open taps, each a network card in the machine: CableMAC(n).
	Cables []*os.File `json:"-"`
	// Control is a TCP port of 127.0.0.1 where QEMU runs that leads to the same
	// port of ControlAddress in the machine, on a card of its own. 0: there is none.
	Control int
	// Outward is how many network cards lead to where QEMU runs, each with a network of its own, in which the machine's
	// address is OutwardAddress and the router's OutwardRouter.
	Outward int
}

// MaxVFs is what each NIC can have: the most of QEMU 7.2. A kernel with pages of 64 KiB takes VFs only if the memory of
// each is as large. QEMU gives a VF memory for its queues, and only for two VFs of this size the sizes of VF and PF are
// those that QEMU itself computes.
const (
	MaxVFs      = 127
	MaxVFsARM64 = 2
)

// Addresses of Config.Outward.
const (
	OutwardAddress = ControlAddress
	OutwardRouter  = "10.0.2.2"
)

// ControlMAC is the card for Config.Control, ControlAddress what the machine gives it.
const (
	ControlMAC     = "52:54:00:00:00:01"
	ControlAddress = "10.0.2.15"
)

// CableMAC is the address of the machine's card for the n-th cable.
func CableMAC(n int) string { return fmt.Sprintf("52:54:00:00:01:%02x", n) }

// Defaults is a machine with two NICs.
func Defaults() Config { return Config{NICs: 2, Memory: 2048, Timeout: 10 * time.Minute} }

// ErrDied is a machine that stopped before its command ended.
var ErrDied = errors.New("the machine died")

// ErrKernel is a machine whose kernel reported a bug of its own or of the module.
var ErrKernel = errors.New("the kernel reported a bug")

// Run gives the exit status of the job's command. An error is about the machine.
func Run(ctx context.Context, cfg Config, job Job, output io.Writer) (int, error) {
	if err := sweep(os.TempDir()); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := fill(dir, cfg, job); err != nil {
		return 0, fmt.Errorf("preparing the machine: %w", err)
	}
	if cfg.Timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.Timeout)
		defer cancel()
	}
	if cfg.Console == "" {
		cfg.Console = filepath.Join(dir, "console")
	}
	err = qemu(ctx, arguments(cfg, job, dir), cfg.Cables, output)
	log, _ := os.ReadFile(cfg.Console)
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, tail(log, 20))
	}
	if err := Healthy(log); err != nil {
		return 0, err
	}
	exit, err := readStatus(dir)
	if err != nil {
		return 0, fmt.Errorf("%w: %w\n%s", ErrDied, err, tail(log, 20))
	}
	return exit, nil
}

// Healthy gives ErrKernel, with what the kernel said, when the console has a bug's report.
func Healthy(console []byte) error {
	if bug := kernelBug.FindIndex(console); bug != nil {
		return fmt.Errorf("%w:\n%s\n%s", ErrKernel, tail(console[:bug[0]], 10), head(console[bug[0]:], 40))
	}
	return nil
}

var kernelBug = regexp.MustCompile(`BUG: |WARNING: |Call Trace:|Kernel panic|unregister_netdevice: waiting|suspicious RCU|blocked for more than`)

// qemu runs in a thread of its own: the signal that the kernel sends it at our
// death is at the death of the thread that started it.
func qemu(ctx context.Context, args []string, cables []*os.File, output io.Writer) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		var complaints bytes.Buffer
		cmd.Stdout, cmd.Stderr = struct{ io.Writer }{output}, &complaints // a pipe: QEMU would truncate a file
		cmd.ExtraFiles = cables
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		err := cmd.Run()
		if ctx.Err() != nil {
			err = fmt.Errorf("stopping the machine: %w", ctx.Err())
		}
		if err != nil {
			err = fmt.Errorf("running QEMU: %w %s", err, bytes.TrimSpace(complaints.Bytes()))
		}
		done <- err
	}()
	return <-done
}

func fill(dir string, cfg Config, job Job) error {
	files := filepath.Join(dir, filesDir)
	for _, sub := range []string{files, filepath.Join(dir, "proc"), filepath.Join(dir, "sys"), filepath.Join(dir, "dev"), filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
	}
	if err := copyFile(cfg.Init, filepath.Join(dir, InitFile)); err != nil {
		return err
	}
	for _, file := range cfg.Files {
		if err := copyFile(file, filepath.Join(files, filepath.Base(file))); err != nil {
			return err
		}
	}
	return writeJob(dir, job)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// arguments: a single processor, because QEMU 7.2 sometimes dies early with two; no
// KVM, because it is not to be relied on; NVMe controllers, because they are
// QEMU 7.2's only functions with SR-IOV, and swsim needs nothing else of them.
func arguments(cfg Config, job Job, dir string) []string {
	args, words := board(cfg.Arch)
	args = append(args,
		"-accel", "tcg,thread=multi", "-smp", "1",
		"-m", strconv.Itoa(cfg.Memory), "-display", "none", "-nodefaults", "-no-user-config",
		"-serial", "file:"+cfg.Console, "-kernel", cfg.Kernel,
		"-append", words+" quiet loglevel=5 panic=-1 mitigations=off"+
			" rcupdate.rcu_cpu_stall_suppress=1"+ // a busy host stops the machine for long, which is no bug of its kernel
			" root="+JobTag+" rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=512000 rw"+
			" bonding.max_bonds=0 dummy.numdummies=0 init=/"+InitFile,
		"-chardev", "file,id=output,path=/dev/stdout", "-device", "virtio-serial", "-device", "virtserialport,chardev=output,name=output",
		"-device", "virtio-rng-pci",
	)
	if !cfg.Reboots {
		args = append(args, "-no-reboot")
	}
	if cfg.Drive != "" { // a power cut loses what the machine has not written, and the host loses nothing
		args = append(args, "-drive", "if=virtio,format=raw,cache=unsafe,file="+cfg.Drive)
	}
	args = append(args, share(JobTag, dir, "off")...)
	args = append(args, share(RootTag, cfg.Root, "on")...)
	for n, s := range job.Shares {
		readonly := "on"
		if s.Writable {
			readonly = "off"
		}
		args = append(args, share(ShareTag(n), s.From, readonly)...)
	}
	args = append(args, cards(cfg)...)
	for n := range cfg.NICs {
		args = append(args, nic(n, cfg.Arch)...)
	}
	return args
}

// board gives QEMU's words for an architecture, and the kernel's. On amd64 there is no test of the timer's interrupts,
// which come late on a busy host. The processor of arm64 is that of a BlueField-2.
func board(arch string) (qemu []string, kernel string) {
	if arch == "arm64" {
		return []string{"qemu-system-aarch64", "-machine", "virt,gic-version=3", "-cpu", "cortex-a72"}, "console=ttyAMA0"
	}
	return []string{"qemu-system-x86_64", "-machine", "q35", "-cpu", "max", "-device", "intel-iommu"},
		"console=ttyS0 tsc=reliable no_timer_check random.trust_cpu=on intel_iommu=on"
}

// nic is an NVMe controller with SR-IOV.
func nic(n int, arch string) []string {
	vfs, queues := MaxVFs, 2 // of a VF
	if arch == "arm64" {
		vfs, queues = MaxVFsARM64, 3000
	}
	return []string{
		"-device", fmt.Sprintf("nvme-subsys,id=subsys%d", n),
		"-device", fmt.Sprintf("pcie-root-port,id=slot%[1]d,bus=pcie.0,slot=%[2]d,addr=%#[3]x,mem-reserve=16M", n, n+1, 0x10+n),
		"-device", fmt.Sprintf("nvme,serial=nic%[1]d,subsys=subsys%[1]d,bus=slot%[1]d,max_ioqpairs=%[2]d,msix_qsize=%[3]d,"+
			"sriov_max_vfs=%[4]d,sriov_vq_flexible=%[5]d,sriov_vi_flexible=%[6]d", n, vfs*queues+2, 2*vfs+2, vfs, vfs*queues, 2*vfs),
	}
}

// cards are those of cables, whose files begin at 3 in QEMU, those outward and the one for control.
func cards(cfg Config) []string {
	var args []string
	for n := range cfg.Outward {
		args = append(args, "-netdev", fmt.Sprintf("user,id=outward%d,ipv6=off", n),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=outward%[1]d,mac=52:54:00:00:02:%02[1]x", n))
	}
	for n := range cfg.Cables {
		args = append(args, "-netdev", fmt.Sprintf("tap,id=cable%d,fd=%d", n, 3+n),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=cable%d,mac=%s", n, CableMAC(n)))
	}
	if cfg.Control != 0 {
		args = append(args, "-netdev", fmt.Sprintf("user,id=control,restrict=on,hostfwd=tcp:127.0.0.1:%[1]d-%[2]s:%[1]d", cfg.Control, ControlAddress),
			"-device", "virtio-net-pci,netdev=control,mac="+ControlMAC)
	}
	return args
}

func share(tag, path, readonly string) []string {
	return []string{"-virtfs", fmt.Sprintf("local,path=%s,mount_tag=%s,security_model=none,readonly=%s,multidevs=remap", path, tag, readonly)}
}

const dirPrefix = "ovn-offload-vm-"

// sweep removes the directories of processes that are gone.
func sweep(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func tail(text []byte, lines int) []byte {
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}

func head(text []byte, lines int) []byte {
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(all[:min(len(all), lines)], []byte("\n"))
}
