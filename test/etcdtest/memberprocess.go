package etcdtest

import (
	"fmt"
	"io"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

// memberEnv names the environment variable that turns a process into a member. Its value is the
// path of the member's configuration.
const memberEnv = "PAWL_ETCDTEST_MEMBER"

// init turns the process into a member if StartCluster, which starts the test binary a second time,
// started it as one. It comes before every main, TestMain and flag, so that no test has to know of
// it.
func init() {
	config := os.Getenv(memberEnv)
	if config == "" {
		return
	}
	if binary, ok := os.LookupEnv(superviseEnv); ok {
		os.Exit(supervised(binary, config))
	}
	os.Exit(serveMember(config))
}

// serveMember runs an etcd server until it fails, or until the process that
// started this one is gone or closes its end of standard input.
func serveMember(config string) int {
	_ = os.Unsetenv(memberEnv)
	cfg, err := embed.ConfigFromFile(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "configuration:", err)
		return 1
	}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		return 1
	}
	orphan := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(orphan)
	}()
	select {
	case <-orphan:
		return 0
	case err := <-etcd.Err():
		fmt.Fprintln(os.Stderr, "server:", err)
		return 1
	case <-etcd.Server.StopNotify(): // removed from the cluster
		return 0
	}
}
