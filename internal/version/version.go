// Package version says which build a command is.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// make release sets these in a build: its version, its commit, and the date of that commit.
var release, commit, date string

// String is the module's version and the commit that it was built from, as far as the build knows them,
// and the version of Go that built it.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	v := cmp.Or(release, info.Main.Version, "(devel)")
	if commit != "" {
		v += " " + commit
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(len(s.Value), 12)]) {
			v += " " + s.Value
		}
	}
	if date != "" {
		v += " of " + date
	}
	return fmt.Sprintf("%s, %s %s/%s", v, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
