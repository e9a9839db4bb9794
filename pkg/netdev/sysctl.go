package netdev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SysctlValue reads what Sysctl writes.
func SysctlValue(n *NS, path string) (value string, err error) {
	err = inside(n, func() error {
		raw, err := os.ReadFile(filepath.Join("/proc/sys", path))
		value = strings.TrimSpace(string(raw))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", path, err)
	}
	return value, nil
}
