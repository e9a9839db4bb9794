// Package cnifiles puts the files of the network into the directories of the container
// runtime: the CNI plugin, and the configuration that names it.
//
// Place in the data flow:
//
//	image -> InstallPlugin -> the host's directory of CNI binaries
//	agent, once the node is set up -> WriteConf -> runtime -> the kubelet reports the node ready
//
// The configuration is written last, because the runtime starts pods as soon as it is there.
// A plugin that runs is never written over: the new file takes its name.
package cnifiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
)

// PluginName is the type in the CNI configuration and the binary's file name.
const PluginName = "ovn-k8s-cni-overlay"

const (
	confName    = "10-ovn-kubernetes.conf"
	confContent = `{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"` + PluginName + `"}` + "\n"
)

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

// WriteConf announces the network to the runtime, which then reports the node
// ready: it is the last step of a start.
func WriteConf(dir string) error {
	if err := install(dir, confName, []byte(confContent), 0o644); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return nil
}

// CheckFirst is an error if the container runtime reads the configuration of another network before ours: it takes the
// first file by name.
func CheckFirst(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("checking the CNI configuration: %w", err)
	}
	for _, entry := range entries { // sorted by name
		if isOther(dir, entry.Name()) && IsBeforeOurs(entry.Name()) {
			return fmt.Errorf("the container runtime uses %s, which comes before %s: remove the file of the other network",
				filepath.Join(dir, entry.Name()), confName)
		}
	}
	return nil
}

// IsBeforeOurs reports whether the container runtime reads a file before ours.
func IsBeforeOurs(name string) bool { return name < confName }

// Others are the configurations of other networks, in the order in which the container runtime reads them. A directory
// that is absent has none.
func Others(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for other networks: %w", err)
	}
	var others []string
	for _, entry := range entries {
		if isOther(dir, entry.Name()) {
			others = append(others, entry.Name())
		}
	}
	return others, nil
}

// isOther reports whether a file is the configuration of another network. Multus is none: it asks this network for the
// pod's first interface.
func isOther(dir, name string) bool {
	if !isConf(name) || name == confName {
		return false
	}
	var conf struct {
		Type    string
		Plugins []struct{ Type string }
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || json.Unmarshal(text, &conf) != nil {
		return true
	}
	if len(conf.Plugins) > 0 {
		conf.Type = conf.Plugins[0].Type
	}
	return conf.Type != "multus" && conf.Type != "multus-shim"
}

func isConf(name string) bool {
	switch filepath.Ext(name) {
	case ".conf", ".conflist", ".json":
		return true
	}
	return false
}

// RemoveConf takes the announcement back; absent is fine.
func RemoveConf(dir string) error {
	if err := os.Remove(filepath.Join(dir, confName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the CNI configuration: %w", err)
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
