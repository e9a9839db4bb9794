// Benchvm runs a command or a test binary in a virtual machine with SmartNICs.
// It is made for `go test -exec`, too; docs/bench.md has examples.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit := 0
	if err := command(&exit).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "benchvm:", err)
		exit = 125
	}
	os.Exit(exit)
}

// options are the flags.
type options struct {
	platform build.Platform
	machine  vm.Config
	job      vm.Job
	cache    string
	root     string
	plain    bool
	disk     string
}

func command(exit *int) *cobra.Command {
	o := options{platform: build.DefaultPlatform(), machine: vm.Defaults(), job: vm.Job{Switchdev: true, VFs: 4}}
	cmd := &cobra.Command{
		Use: "benchvm [flags] [--] PROGRAM [ARGUMENTS]", Short: "run a program in a VM with SmartNICs", Args: cobra.MinimumNArgs(1),
		SilenceUsage: true, SilenceErrors: true,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&o.platform.Arch, "arch", o.platform.Arch, "amd64 or arm64, which needs --root")
	flags.IntVar(&o.platform.Pages, "pages", o.platform.Pages, "size of the kernel's pages in KiB: 4, or 64 with arm64")
	flags.IntVar(&o.machine.NICs, "nics", o.machine.NICs, "number of NICs")
	flags.IntVar(&o.job.VFs, "vfs", o.job.VFs, fmt.Sprintf("VFs of each NIC when the program begins, up to %d, with arm64 %d", vm.MaxVFs, vm.MaxVFsARM64))
	flags.BoolVar(&o.job.Switchdev, "switchdev", o.job.Switchdev, "switchdev mode when the program begins")
	flags.BoolVar(&o.plain, "plain", false, "without the NICs' driver")
	flags.IntVar(&o.machine.Memory, "memory", o.machine.Memory, "memory in MB")
	flags.DurationVar(&o.machine.Timeout, "timeout", o.machine.Timeout, "for all of it")
	flags.StringSliceVar(&o.machine.Files, "file", nil, "a program or file to have in "+vm.FilesDir+", which is in PATH")
	flags.StringSliceVar(&o.job.Env, "env", nil, "NAME=VALUE for the program")
	flags.BoolVar(&o.job.Systemd, "systemd", false, "boot with systemd and NetworkManager; the program is a unit")
	flags.StringVar(&o.disk, "disk", "", "directory that the machine has as "+vm.DiskDir+", and that stays; with --systemd its units are the host's own")
	flags.StringVar(&o.root, "root", "", "root file system instead of Debian trixie with OVS 3.5 and OVN 25.03; / is this machine's")
	flags.StringVar(&o.cache, "cache", "", "where kernel and root file system are kept")
	flags.IntVar(&o.machine.Outward, "outward", 0, "number of network cards that lead to where benchvm runs, eth0 and so on: "+vm.OutwardAddress+" by "+vm.OutwardRouter)
	flags.StringVar(&o.machine.Console, "console", "", "file for the kernel's messages")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		*exit, err = o.run(cmd.Context(), args)
		return err
	}
	return cmd
}

func (o *options) run(ctx context.Context, args []string) (int, error) {
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("root is needed: the machine's root file system is shown to it as it is")
	}
	if o.platform.Arch != build.DefaultPlatform().Arch && o.root == "" {
		return 0, fmt.Errorf("--arch=%s needs a root file system: --root", o.platform.Arch)
	}
	if err := o.platform.Check(); err != nil {
		return 0, err
	}
	repo, err := repository()
	if err != nil {
		return 0, err
	}
	scratch, err := os.MkdirTemp("", "benchvm-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := o.make(ctx, repo, scratch); err != nil {
		return 0, err
	}
	if err := o.place(repo, args); err != nil {
		return 0, err
	}
	return vm.Run(ctx, o.machine, o.job, os.Stdout)
}

// make gets kernel, driver and root file system from the cache.
func (o *options) make(ctx context.Context, repo, scratch string) (err error) {
	if o.cache == "" {
		if o.cache, err = build.DefaultDir(); err != nil {
			return err
		}
	}
	c := &build.Cache{Dir: o.cache, Repo: repo, Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	if err := c.BenchPackages(ctx, o.platform); err != nil {
		return err
	}
	kernel, err := c.Kernel(ctx, o.platform)
	if err != nil {
		return err
	}
	o.machine.Kernel, o.machine.Arch = kernel.Image, kernel.Arch
	if o.machine.Root = o.root; o.root == "" {
		root := c.BenchRoot
		if o.job.Systemd {
			root = c.SystemdRoot
		}
		if o.machine.Root, err = root(ctx); err != nil {
			return err
		}
	}
	o.machine.Init = filepath.Join(scratch, vm.InitFile)
	if err := c.VMInit(ctx, o.platform, o.machine.Init); err != nil {
		return err
	}
	if o.plain {
		return nil
	}
	module, err := c.Swsim(ctx, kernel)
	o.job.Module = filepath.Base(module)
	o.machine.Files = append(o.machine.Files, module)
	return err
}

// place brings a program that is a file of the host along, and shows the
// repository where it is here: tests find their testdata.
func (o *options) place(repo string, args []string) error {
	o.job.Shares = []vm.Share{{From: repo, To: repo}}
	if o.disk != "" {
		disk, err := filepath.Abs(o.disk)
		if err != nil {
			return err
		}
		o.job.Shares = append(o.job.Shares, vm.Share{From: disk, To: vm.DiskDir, Writable: true})
	}
	o.job.Args = args
	if strings.Contains(args[0], "/") {
		o.machine.Files = append(o.machine.Files, args[0])
		o.job.Args = append([]string{filepath.Join(vm.FilesDir, filepath.Base(args[0]))}, args[1:]...)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if dir == repo || strings.HasPrefix(dir, repo+"/") {
		o.job.Dir = dir
	}
	return nil
}

func repository() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("benchvm must be run inside the repository")
}
