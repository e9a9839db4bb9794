// Package unmanaged keeps the host's network services off the devices of the network: NetworkManager and
// systemd-networkd, and with them netplan, would otherwise configure bridges, the management port, VFs and representors.
//
// Place in the data flow:
//
//	agent, before the first change of the node -> Install -> files in /run -> a reload by D-Bus, uevents -> the services
//	clean-up -> Remove
//
// The files are in /run only: after a boot without an agent the host is as before. The uplink itself stays with its
// service; docs/agent.md says what that means.
package unmanaged

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

//go:embed files
var files embed.FS

const (
	rules     = "udev/rules.d/85-ovn-offload.rules"
	functions = "systemd/network/05-ovn-offload-functions.network"
	networkd  = "systemd/network/05-ovn-offload.network" // before netplan's 10-netplan-*: the first file by name that matches counts
	manager   = "NetworkManager/conf.d/ovn-offload.conf"
)

// devices are those of every node. Open vSwitch makes the last three.
func devices() []string {
	return []string{contract.IntegrationBridge, node.ManagementInterface, "ovs-system", "ovs-netdev", "genev_sys_*"}
}

// content gives the files below /run. Bridges are those of the node's uplinks.
func content(bridges []string) (map[string]string, error) {
	names := append(devices(), bridges...)
	out := map[string]string{
		networkd: "# Made by ovn-offload.\n[Match]\nName=" + strings.Join(names, " ") + "\n\n[Link]\nUnmanaged=yes\n",
		manager:  "# Made by ovn-offload.\n[keyfile]\nunmanaged-devices+=interface-name:" + strings.Join(names, ";interface-name:") + "\n",
	}
	for _, path := range []string{rules, functions} {
		text, err := files.ReadFile("files/" + filepath.Base(path))
		if err != nil {
			return nil, err
		}
		out[path] = string(text)
	}
	return out, nil
}

// Install writes the files below the host's /run and tells the services. It changes nothing if they are there. A unit of
// the host may have made VFs before, at the boot: for those udev uses the rules too.
func Install(ctx context.Context, run, sys string, bridges []string) error {
	want, err := content(bridges)
	if err != nil {
		return err
	}
	changed := false
	for path, text := range want {
		path = filepath.Join(run, path)
		if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, []byte(text)) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("keeping network services off: %w", err)
		}
		if err := durable.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("keeping network services off: %w", err)
		}
		changed = true
	}
	if !changed {
		return nil
	}
	links, err := functionLinks(sys)
	return errors.Join(err, reload(ctx, run, links), announce(sys, links))
}

// functionPort is what the rules match.
var functionPort = regexp.MustCompile(`^(c\d+)?pf\d+[vs]f\d+$`)

// functionLinks names the netdevs of VFs and the representors that are there.
func functionLinks(sys string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(sys, "class/net/*"))
	if err != nil {
		return nil, err
	}
	var links []string
	for _, link := range all {
		_, notVF := os.Stat(filepath.Join(link, "device/physfn"))
		port, _ := os.ReadFile(filepath.Join(link, "phys_port_name")) // most links have none
		if notVF == nil || functionPort.Match(bytes.TrimSpace(port)) {
			links = append(links, filepath.Base(link))
		}
	}
	return links, nil
}

// announce has the kernel tell udev of links once more.
func announce(sys string, links []string) error {
	var errs []error
	for _, link := range links {
		err := os.WriteFile(filepath.Join(sys, "class/net", link, "uevent"), []byte("change"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("telling udev of %s: %w", link, err))
		}
	}
	return errors.Join(errs...)
}

// Remove removes the files and tells the services. Absent files are no error.
func Remove(ctx context.Context, run string) error {
	want, err := content(nil)
	if err != nil {
		return err
	}
	changed := false
	for path := range want {
		err := os.Remove(filepath.Join(run, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing files of network services: %w", err)
		}
		changed = changed || err == nil
	}
	if !changed {
		return nil
	}
	return reload(ctx, run, nil)
}

// reload lets the services that run read the files, and NetworkManager release links. udev reads its rules by itself.
func reload(ctx context.Context, run string, links []string) error {
	socket := filepath.Join(run, "dbus/system_bus_socket")
	if _, err := os.Stat(socket); err != nil {
		return nil //nolint:nilerr // without a bus there is no service to tell
	}
	bus, err := dbus.Connect("unix:path="+socket, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("connecting to D-Bus: %w", err)
	}
	defer func() { _ = bus.Close() }()
	var running []string
	if err := bus.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.ListNames", 0).Store(&running); err != nil {
		return fmt.Errorf("listing services of D-Bus: %w", err)
	}
	const configuration = uint32(1) // NetworkManager's flag for its files alone
	var errs []error
	for _, service := range []struct {
		name, path, method string
		args               []any
	}{
		{"org.freedesktop.network1", "/org/freedesktop/network1", "org.freedesktop.network1.Manager.Reload", nil},
		{networkManager, managerPath, networkManager + ".Reload", []any{configuration}},
	} {
		if !slices.Contains(running, service.name) {
			continue
		}
		call := bus.Object(service.name, dbus.ObjectPath(service.path)).CallWithContext(ctx, service.method, 0, service.args...)
		if call.Err != nil {
			errs = append(errs, fmt.Errorf("telling %s: %w", service.name, call.Err))
		}
	}
	if slices.Contains(running, networkManager) {
		errs = append(errs, release(ctx, bus, links))
	}
	return errors.Join(errs...)
}

const (
	networkManager = "org.freedesktop.NetworkManager"
	managerPath    = "/org/freedesktop/NetworkManager"
)

// release has NetworkManager give up links that it manages already: it uses the mark of udev for new links only.
func release(ctx context.Context, bus *dbus.Conn, links []string) error {
	var errs []error
	for _, link := range links {
		var device dbus.ObjectPath
		call := bus.Object(networkManager, managerPath).CallWithContext(ctx, networkManager+".GetDeviceByIpIface", 0, link)
		if call.Store(&device) != nil {
			continue // it does not know the link
		}
		if err := bus.Object(networkManager, device).SetProperty(networkManager+".Device.Managed", dbus.MakeVariant(false)); err != nil {
			errs = append(errs, fmt.Errorf("releasing %s from NetworkManager: %w", link, err))
		}
	}
	return errors.Join(errs...)
}
