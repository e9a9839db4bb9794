// Package cnifiles puts the files of the network into the directories of the container
// runtime: the CNI plugin, and the configuration that names it.
//
// Place in the data flow:
//
//	image -> InstallPlugin -> the host's directory of CNI binaries
//	agent, once the node is set up -> Dir.Write -> runtime -> the kubelet reports the node ready
//
// The configuration is written last, because the runtime starts pods as soon as it is there. It is a list of plugins, to
// which other programs add theirs: Write changes the entry of this network only. A plugin that runs is never written
// over: the new file takes its name.
package cnifiles

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
)

// PluginName is the type in the CNI configuration and the binary's file name.
const PluginName = "ovn-k8s-cni-overlay"

// InstallPlugin puts the CNI binary from, out of the image, into the host's
// directory, unless it is there already. A plugin that runs is not disturbed.
func InstallPlugin(from, dir string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("installing the CNI plugin: %w", err)
	}
	if err := install(dir, PluginName, content, 0o755); err != nil {
		return fmt.Errorf("installing the CNI plugin: %w", err)
	}
	return nil
}

func install(dir, name string, content []byte, mode os.FileMode) error {
	path := filepath.Join(dir, name)
	was, err := os.ReadFile(path)
	if err == nil && bytes.Equal(was, content) {
		return os.Chmod(path, mode)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, content, mode)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
