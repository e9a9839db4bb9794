// The lab is a real Kubernetes cluster on this machine, with ovn-offload as its
// network: `lab up`, `lab down`, and what one needs in between. docs/lab.md
// describes it; package cluster does the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/hack/lab/cluster"
	"github.com/ovn-offload/ovn-offload/hack/lab/conformance"
	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cfg, err := cluster.Defaults(".")
	root := &cobra.Command{Use: "lab", Short: "a real Kubernetes cluster on this machine", SilenceUsage: true, SilenceErrors: true}
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&cfg.Name, "name", cfg.Name, "name of the lab; several may run at once")
	flags.StringVar(&cfg.Workdir, "workdir", "", "state, logs and kubeconfig (default _output/NAME)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Name() == "machine" || cmd.Parent().Name() == "machine" {
			return nil
		}
		if os.Geteuid() != 0 {
			return errors.New("root is needed: the lab makes namespaces, links and mounts of its own")
		}
		return err
	}
	root.AddCommand(upCommand(&cfg), fillCommand(), downCommand(&cfg), statusCommand(&cfg), execCommand(&cfg), loadCommand(&cfg), restartCommand(&cfg), removeCommand(&cfg), powerOffCommand(&cfg), powerOnCommand(&cfg), eraseCommand(&cfg), conformanceCommand(&cfg), machineCommand())
	return root
}

func upCommand(cfg *cluster.Config) *cobra.Command {
	up := &cobra.Command{Use: "up", Short: "bring the lab up, or repair it", Args: cobra.NoArgs}
	flags := up.Flags()
	flags.IntVar(&cfg.Nodes, "nodes", cfg.Nodes, "number of nodes, those of the control plane included (default: the control plane's and two more)")
	flags.IntVar(&cfg.ControlPlanes, "control-planes", cfg.ControlPlanes, "number of nodes with etcd and an API server: 1, or 3 behind a load balancer")
	flags.IntVar(&cfg.VMNodes, "vm-nodes", cfg.VMNodes, "number of nodes beside those that are virtual machines with a simulated SmartNIC")
	flags.StringVar(&cfg.VMInit, "vm-init", "", "systemd: these nodes boot with systemd from a disk, and pull their images from a registry")
	flags.StringVar(&cfg.Families, "families", cfg.Families, "address families: ipv4, dual or ipv6")
	flags.StringVar(&cfg.CNI, "cni", cfg.CNI, "network: ovn-offload, or bridge to compare with")
	flags.BoolVar(&cfg.Multus, "multus", false, "install Multus")
	flags.StringVar(&cfg.Product, "product", "", "checkout of another version of ovn-offload: its chart and its image are installed")
	flags.StringVar(&cfg.Suite, "suite", "", "suite of Debian whose OVS and OVN are in the image, one of hack/image/debian/pins.txt")
	flags.StringArrayVar(&cfg.ChartValues, "set", nil, "value of the chart, such as databases.members=1; may be repeated")
	prefixes := map[string]*[]netip.Prefix{"subnet": &cfg.Subnets, "pod-cidr": &cfg.PodCIDRs, "service-cidr": &cfg.ServiceCIDRs}
	for name, list := range prefixes {
		flags.Var(&prefixList{list}, name, "replaces the one of its family; two with a comma")
	}
	up.RunE = func(cmd *cobra.Command, _ []string) error {
		if !flags.Changed("nodes") {
			cfg.Nodes = cfg.ControlPlanes + 2
		}
		lab, err := cluster.New(*cfg)
		if err != nil {
			return err
		}
		if err := lab.Up(cmd.Context()); err != nil {
			return err
		}
		usage(lab.Config(), lab.Kubeconfig())
		return nil
	}
	return up
}

// prefixList replaces the default of the same family by the flag's.
type prefixList struct{ list *[]netip.Prefix }

func (p *prefixList) Type() string { return "prefixes" }

func (p *prefixList) String() string {
	if p.list == nil {
		return ""
	}
	var parts []string
	for _, prefix := range *p.list {
		parts = append(parts, prefix.String())
	}
	return strings.Join(parts, ",")
}

func (p *prefixList) Set(value string) error {
	list := append([]netip.Prefix(nil), *p.list...)
	for text := range strings.SplitSeq(value, ",") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].Addr().Is4() == prefix.Addr().Is4() {
				list[i] = prefix
			}
		}
	}
	*p.list = list
	return nil
}

func conformanceCommand(cfg *cluster.Config) *cobra.Command {
	run := conformance.Config{Out: os.Stdout}
	c := &cobra.Command{Use: "conformance", Short: "run Kubernetes' own tests of the network in a lab that is up", Args: cobra.NoArgs}
	c.Flags().StringVar(&run.Focus, "focus", "", "only tests whose name matches this regular expression")
	c.Flags().IntVar(&run.Procs, "procs", 4, "tests that run at once")
	c.Flags().DurationVar(&run.Within, "within", 3*time.Hour, "end after this time")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if run.Lab, err = cluster.Open(*cfg); err != nil {
			return err
		}
		return conformance.Run(cmd.Context(), run)
	}
	return c
}

func fillCommand() *cobra.Command {
	return &cobra.Command{Use: "fill-cache", Short: "make beforehand what takes minutes: Kubernetes, the bench's kernel, root file systems", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		cfg, err := cluster.Defaults(".")
		if err != nil {
			return err
		}
		cache := build.Cache{Repo: cfg.Repo, Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
		if cache.Dir, err = build.DefaultDir(); err != nil {
			return err
		}
		return cache.Fill(cmd.Context())
	}}
}

func usage(cfg cluster.Config, kubeconfig string) {
	lab, node := "_output/bin/lab", cfg.NodeNames()[0]
	down := "make lab-down"
	if cfg.Name != "lab" {
		lab += " --name=" + cfg.Name
	}
	if cfg.Workdir != filepath.Join(cfg.Repo, "_output", cfg.Name) {
		lab += " --workdir=" + cfg.Workdir
	}
	if lab != "_output/bin/lab" {
		down = lab + " down"
	}
	fmt.Printf(`
The lab is up. From this shell:
    export KUBECONFIG=%s PATH=$PWD/_output/bin:$PATH
    kubectl get nodes,pods -A -o wide
    kubectl run -it --rm --restart=Never --image=%s --image-pull-policy=Never shell -- bash
    %s exec %s -- ip address
    %s exec outside -- ping -c1 %s
`, kubeconfig, build.ToolsImage, lab, node, lab, cfg.Addresses(node)[0])
	if cfg.CNI == cluster.CNIOffload {
		fmt.Printf("    %s exec %s -- ovn-nbctl --no-leader-only show\n    %s exec %s -- ovs-vsctl show\n    %s restart controller\n", lab, node, lab, node, lab)
	}
	fmt.Println("and to remove it:\n    " + down)
}

func downCommand(cfg *cluster.Config) *cobra.Command {
	return &cobra.Command{Use: "down", Short: "remove the lab and everything that it made", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		lab, err := cluster.New(*cfg)
		if err != nil {
			return err
		}
		return lab.Down(cmd.Context())
	}}
}

func statusCommand(cfg *cluster.Config) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "machines, nodes and pods", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		text, err := lab.Status(cmd.Context())
		fmt.Print(text)
		return err
	}}
}

func execCommand(cfg *cluster.Config) *cobra.Command {
	return &cobra.Command{Use: "exec NODE -- COMMAND...", Short: "run a command in a node's namespaces, or in those of `outside`", Args: cobra.MinimumNArgs(2), RunE: func(cmd *cobra.Command, args []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		m, err := lab.Machine(args[0])
		if err != nil {
			return err
		}
		line := m.Command(cmd.Context(), args[1:]...)
		if line.Err != nil {
			return line.Err
		}
		return syscall.Exec(line.Path, line.Args, line.Environ())
	}}
}

func loadCommand(cfg *cluster.Config) *cobra.Command {
	return &cobra.Command{Use: "load IMAGE.tar...", Short: "import images into every node", Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		for _, image := range args {
			if err := lab.Load(cmd.Context(), image); err != nil {
				return err
			}
		}
		return nil
	}}
}

func restartCommand(cfg *cluster.Config) *cobra.Command {
	long := "Kills a component (SIGKILL) and waits until it runs again: " + strings.Join(cluster.Components(), ", ")
	return &cobra.Command{Use: "restart COMPONENT...", Short: "kill a component and wait until it runs again", Long: long, Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		for _, component := range args {
			if err := lab.Restart(cmd.Context(), component); err != nil {
				return err
			}
		}
		return nil
	}}
}

func removeCommand(cfg *cluster.Config) *cobra.Command {
	return &cobra.Command{Use: "remove NODE", Short: "take away a node that is a VM, the last of them", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		return lab.Remove(cmd.Context(), args[0])
	}}
}

func powerOffCommand(cfg *cluster.Config) *cobra.Command {
	return &cobra.Command{Use: "power-off NODE", Short: "end a node at once, as when its power is cut; its disk stays", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		return lab.PowerOff(args[0])
	}}
}

func powerOnCommand(cfg *cluster.Config) *cobra.Command {
	var addresses []string
	on := &cobra.Command{Use: "power-on NODE", Short: "boot a node that is off with its disk", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		var moved []netip.Addr
		for _, text := range addresses {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return err
			}
			moved = append(moved, addr)
		}
		return lab.PowerOn(cmd.Context(), args[0], moved...)
	}}
	on.Flags().StringSliceVar(&addresses, "address", nil, "address that the node has from now on, one of each family (with --vm-init=systemd)")
	return on
}

func eraseCommand(cfg *cluster.Config) *cobra.Command {
	return &cobra.Command{Use: "erase NODE [DIRECTORY]", Short: "empty the disk of a node that is off, or one directory of the disk", Args: cobra.RangeArgs(1, 2), RunE: func(_ *cobra.Command, args []string) error {
		lab, err := cluster.Open(*cfg)
		if err != nil {
			return err
		}
		return lab.Erase(args[0], strings.Join(args[1:], ""))
	}}
}

// machineCommand is the init of machines, executed by the lab itself.
func machineCommand() *cobra.Command {
	parent := &cobra.Command{Use: "machine STAGE DESCRIPTION", Hidden: true, Args: cobra.ExactArgs(2), RunE: func(_ *cobra.Command, args []string) error {
		return machine.Run(args[0], args[1])
	}}
	parent.AddCommand(&cobra.Command{Use: "commands", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return machine.ServeCommands()
	}}, &cobra.Command{Use: "command -- COMMAND...", Args: cobra.MinimumNArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		exit, err := machine.CommandInVM(args)
		if err == nil {
			os.Exit(exit)
		}
		return err
	}})
	return parent
}
