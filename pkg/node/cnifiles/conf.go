package cnifiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// The list has the name of OVN-Kubernetes' file, which is no list. The former agents wrote that one, too.
const (
	listName   = "10-ovn-kubernetes.conflist"
	formerName = "10-ovn-kubernetes.conf"
)

const (
	ownEntry = `{"type":"` + PluginName + `"}`
	ownList  = `{"cniVersion":"1.1.0","name":"ovn-kubernetes","plugins":[` + ownEntry + `]}` + "\n"
)

// Dir is the directory in which the container runtime looks for networks.
type Dir struct {
	Path string
	// Managed says that the agent writes and removes the configuration. Else an administrator does.
	Managed bool
}

// Write announces the network to the runtime, which then reports the node ready: it is the last step of a start.
// Plugins of other programs in the list stay.
func (d Dir) Write(log *slog.Logger) error {
	if !d.Managed {
		return nil
	}
	was, err := os.ReadFile(filepath.Join(d.Path, listName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the CNI configuration: %w", err)
	}
	if err := install(d.Path, listName, withOwn(was), 0o644); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	named, err := d.removeFormer()
	if named != "" {
		log.Warn("the former CNI configuration stays while another file names it: restart the program of that file",
			"path", filepath.Join(d.Path, formerName), "file", named)
	}
	return err
}

// Remove takes the announcement back; absent is fine.
func (d Dir) Remove() error {
	if !d.Managed {
		return nil
	}
	if err := errors.Join(remove(filepath.Join(d.Path, formerName)), remove(filepath.Join(d.Path, listName))); err != nil {
		return fmt.Errorf("removing the CNI configuration: %w", err)
	}
	return nil
}

// withOwn gives a list with the entry of this network. A list that other programs have added to keeps all else, such as
// its version, which their plugins may need.
func withOwn(was []byte) []byte {
	list := map[string]json.RawMessage{}
	var plugins []json.RawMessage
	if json.Unmarshal(was, &list) != nil || json.Unmarshal(list["plugins"], &plugins) != nil || len(plugins) < 2 {
		return []byte(ownList)
	}
	first := map[string]any{}
	if json.Unmarshal(plugins[0], &first) != nil || first["type"] != PluginName {
		return []byte(ownList)
	}
	own := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(ownList), &own); err != nil {
		return []byte(ownList)
	}
	whole := len(first) == 1
	for _, key := range []string{"cniVersion", "name"} {
		if _, ok := list[key]; !ok {
			list[key], whole = own[key], false
		}
	}
	if whole {
		return was
	}
	plugins[0] = json.RawMessage(ownEntry)
	text, err := json.Marshal(plugins)
	if err != nil {
		return []byte(ownList)
	}
	list["plugins"] = text
	if text, err = json.Marshal(list); err != nil {
		return []byte(ownList)
	}
	return append(text, '\n')
}

// Check is an error if the container runtime uses the configuration of another network: it takes the first file by name.
// Where an administrator writes the configuration, the absence of one is an error, too.
func (d Dir) Check() error {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("checking the CNI configuration: %w", err)
	}
	for _, entry := range entries { // sorted by name
		name := entry.Name()
		switch {
		case !isConf(name) || d.Managed && !IsBeforeOurs(name):
		case isOther(d.Path, name) && d.Managed:
			return fmt.Errorf("the container runtime uses %s, which comes before %s: remove the file of the other network",
				filepath.Join(d.Path, name), listName)
		case isOther(d.Path, name):
			return fmt.Errorf("the container runtime uses %s, whose first plugin is another network's: put a file before it whose first plugin has the type %s",
				filepath.Join(d.Path, name), PluginName)
		case !d.Managed:
			return nil
		}
	}
	if !d.Managed {
		return fmt.Errorf("no file in %s gives pods this network: write one whose first plugin has the type %s, or set cni.manageConf to true", d.Path, PluginName)
	}
	return nil
}

// IsBeforeOurs reports whether the container runtime reads a file before ours.
func IsBeforeOurs(name string) bool { return name < listName }

// Others are the configurations of other networks, in the order in which the container runtime reads them. A directory
// that is absent has none.
func Others(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for other networks: %w", err)
	}
	var others []string
	for _, entry := range entries {
		if isConf(entry.Name()) && isOther(dir, entry.Name()) {
			others = append(others, entry.Name())
		}
	}
	return others, nil
}

// isOther reports whether a file is the configuration of another network. Multus is none: it asks this network for the
// pod's first interface. Nor is a list that begins with this network's plugin, whatever its name.
func isOther(dir, name string) bool {
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
	return conf.Type != "multus" && conf.Type != "multus-shim" && conf.Type != PluginName
}

func isConf(name string) bool {
	switch filepath.Ext(name) {
	case ".conf", ".conflist", ".json":
		return true
	}
	return false
}
