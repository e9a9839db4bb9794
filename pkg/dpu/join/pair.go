package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Pair is a host and its DPU, and their clusters.
type Pair struct {
	Host  string
	Hosts *rest.Config
	// DPU is the DPU's Node. Without one, the DPU is in no cluster.
	DPU  string
	DPUs *rest.Config
	// Progress gets a line for each step.
	Progress io.Writer
}

// Options say how a DPU is admitted.
type Options struct {
	// Server is the URL of the hosts' API server, as the DPU reaches it; empty: as the configuration says.
	Server string
	// Image writes the files on the DPU; empty: that of the agents there.
	Image string
	// Output is the directory of this machine for the files of a DPU in no cluster.
	Output string
	// Timeout is for the files to be written on the DPU.
	Timeout time.Duration
}

// Join admits the DPU.
func (p Pair) Join(ctx context.Context, o Options) error {
	if (p.DPU == "") == (o.Output == "") {
		return errors.New("want --dpu or --output")
	}
	hosts, err := api.NewFor(p.Hosts)
	if err != nil {
		return err
	}
	ca, err := Authority(p.Hosts)
	if err != nil {
		return err
	}
	files, err := Admit(ctx, hosts, p.Host, cmp.Or(o.Server, p.Hosts.Host), ca)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "account ovn-dpu/%s is there\n", p.Host)
	if o.Output != "" {
		return p.write(o.Output, files)
	}
	if err := p.deliver(ctx, o, files); err != nil {
		return err
	}
	if err := Label(ctx, hosts, p.Host, contract.DPUHostLabel); err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "Node %s has label %s\nWatch the DPU begin: kubectl -n ovn-kubernetes get lease ovn-dpu-%s --watch\n", p.Host, contract.DPUHostLabel, p.Host)
	return nil
}

func (p Pair) deliver(ctx context.Context, o Options, files Files) error {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	client, err := api.NewFor(p.DPUs)
	if err != nil {
		return err
	}
	if o.Image == "" {
		kinds, err := dynamic.NewForConfig(p.DPUs)
		if err != nil {
			return err
		}
		if o.Image, err = Image(ctx, kinds); err != nil {
			return err
		}
	}
	if err := Deliver(ctx, client, p.DPU, o.Image, files); err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "Node %s has the files in %s\n", p.DPU, Dir)
	if err := Label(ctx, client, p.DPU, contract.DPULabel); err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "Node %s has label %s\n", p.DPU, contract.DPULabel)
	return nil
}

// write writes the files on this machine.
func (p Pair) write(dir string, files Files) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.Progress, "copy the files of %s to %s on the DPU, and label the host's Node %s\n", dir, Dir, contract.DPUHostLabel)
	return nil
}

// Leave locks the DPU out. A DPU with a Node loses its label.
func (p Pair) Leave(ctx context.Context) error {
	client, err := api.NewFor(p.Hosts)
	if err != nil {
		return err
	}
	if err := Leave(ctx, client, p.Host); err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "account ovn-dpu/%s is deleted: its DPU has no rights any more\n", p.Host)
	if p.DPU == "" {
		return nil
	}
	if client, err = api.NewFor(p.DPUs); err != nil {
		return err
	}
	if err := Unlabel(ctx, client, p.DPU, contract.DPULabel); err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "Node %s has no label %s any more\n", p.DPU, contract.DPULabel)
	return nil
}
