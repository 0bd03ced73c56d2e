package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for a release.
var version = ""

// buildVersion is the release, or what the Go tool knows of the checkout.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: a.do(func(context.Context, []string) error {
			v := versionInfo{Version: buildVersion(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			return emit(a, v, func(t *report, v versionInfo) {
				t.line("%s", fmt.Sprintf("%s %s (%s, %s/%s)", cmp.Or(a.name, "ringfence"), v.Version, v.Go, v.OS, v.Arch))
			})
		}),
	}
}
