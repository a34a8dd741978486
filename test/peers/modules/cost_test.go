package modules

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

var cost = flag.Int("cost", 0, "how many locks each run of TestWhatALockCostsWithEachVersionOfTheAPI takes")

// apis are the versions of etcd's API module that a lock's cost is measured with, and of gRPC, if it is not the
// one that the API module asks for.
var apis = []struct{ api, grpc string }{
	{"v3.5.28", ""}, {"v3.5.28", "v1.83.2"}, {"v3.6", ""}, {"v3.7.0", ""}, {"v3.7.0", "v1.83.2"}, {"v3.7", ""},
}

// TestWhatALockCostsWithEachVersionOfTheAPI prints a table. The programs run in turns, so that what else the
// machine does is spread over all of them.
func TestWhatALockCostsWithEachVersionOfTheAPI(t *testing.T) {
	if *cost == 0 {
		t.Skip("a measurement, not a test: -cost 5000")
	}
	const turns = 15
	var programs []program
	var names []string
	for _, v := range apis {
		p := program{t, t.TempDir()}
		p.copy("main.go")
		p.copy("cost.go")
		p.init()
		p.run("go", "get", "go.etcd.io/etcd/api/v3@"+v.api)
		if v.grpc != "" {
			p.run("go", "get", "google.golang.org/grpc@"+v.grpc)
		}
		p.run("go", "mod", "tidy")
		p.run("go", "build", "-o", "beside", ".")
		programs = append(programs, p)
		names = append(names, strings.ReplaceAll(strings.TrimSpace(p.run("go", "list", "-m", "-f", "{{.Version}}", "go.etcd.io/etcd/api/v3", "google.golang.org/grpc")), "\n", " | "))
	}
	endpoint := etcdtest.Start(t).Endpoints()[0]
	cpu, allocations := make([][]float64, len(programs)), make([]int, len(programs))
	for range turns {
		for i, p := range programs {
			var µs float64
			_, err := fmt.Sscan(p.run("./beside", endpoint, fmt.Sprint(*cost)), &µs, &allocations[i])
			require.NoError(t, err)
			cpu[i] = append(cpu[i], µs)
		}
	}
	t.Log("| API module | gRPC | µs of CPU for a lock and its release: least, median | allocations |")
	for i, name := range names {
		slices.Sort(cpu[i])
		t.Logf("| %s | %.0f, %.0f | %d |", name, cpu[i][0], cpu[i][turns/2], allocations[i])
	}
}
