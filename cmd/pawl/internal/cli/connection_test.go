package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsed are connection flags as args and the environment give them.
func parsed(t *testing.T, args ...string) *Connection {
	t.Helper()
	var c Connection
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	require.NoError(t, fs.Parse(args))
	require.NoError(t, c.environment(fs))
	return &c
}

func TestEndpointDefaultsToLoopback(t *testing.T) {
	t.Setenv("ETCDCTL_ENDPOINTS", "") // it comes back at the end
	require.NoError(t, os.Unsetenv("ETCDCTL_ENDPOINTS"))
	assert.Equal(t, []string{"127.0.0.1:2379"}, parsed(t).Endpoints)
}

func TestEtcdctlVariablesAreUsed(t *testing.T) {
	for name, v := range map[string]string{
		"ETCDCTL_ENDPOINTS": "a:1,b:2", "ETCDCTL_USER": "root:pw:2", "ETCDCTL_CACERT": "ca", "ETCDCTL_CERT": "crt", "ETCDCTL_KEY": "key",
	} {
		t.Setenv(name, v)
	}
	c := parsed(t)
	assert.Equal(t, []string{"a:1", "b:2"}, c.Endpoints)
	assert.Equal(t, "ca crt key", c.cacert+" "+c.cert+" "+c.key)
	user, password, err := c.login()
	require.NoError(t, err)
	assert.Equal(t, "root", user)
	assert.Equal(t, "pw:2", password)
}

func TestFlagsWinOverEtcdctlVariables(t *testing.T) {
	t.Setenv("ETCDCTL_ENDPOINTS", "a:1")
	t.Setenv("ETCDCTL_USER", "a:b")
	c := parsed(t, "--endpoints", "c:3,d:4", "--user", "e:f")
	assert.Equal(t, []string{"c:3", "d:4"}, c.Endpoints)
	assert.Equal(t, "e:f", c.user)
}

// A script's variable that is not set would otherwise lead to another cluster.
func TestAnEmptyVariableIsRefusedUnlessAFlagIsGiven(t *testing.T) {
	for _, name := range []string{"ENDPOINTS", "USER", "PASSWORD", "CACERT", "CERT", "KEY"} {
		for _, empty := range []string{"", " ", ","} {
			t.Run(name+" "+empty, func(t *testing.T) {
				t.Setenv("ETCDCTL_"+name, empty)
				var c Connection
				fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
				c.Flags(fs)
				err := c.environment(fs)
				require.ErrorContains(t, err, "ETCDCTL_"+name+" is set, and empty")
				assert.Equal(t, ExitUsage, CodeOf(err))
				require.NoError(t, fs.Set(strings.ToLower(name), "a:1"))
				require.NoError(t, c.environment(fs))
				c.Embed = true
				require.NoError(t, c.environment(fs))
			})
		}
	}
	t.Setenv("PAWL_NAMESPACE", "")
	var c Connection
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	require.ErrorContains(t, c.environment(fs), "PAWL_NAMESPACE is set, and empty")
}

func TestSeparatePasswordLeavesTheUserWhole(t *testing.T) {
	t.Setenv("ETCDCTL_USER", "domain:name")
	t.Setenv("ETCDCTL_PASSWORD", "pw")
	user, password, err := parsed(t).login()
	require.NoError(t, err)
	assert.Equal(t, "domain:name", user)
	assert.Equal(t, "pw", password)
}

func TestUserWithoutPasswordIsWrongUsage(t *testing.T) {
	_, err := parsed(t, "--user", "root").config()
	assert.Equal(t, ExitUsage, CodeOf(err))
	assert.ErrorContains(t, err, "ETCDCTL_PASSWORD")
}

func TestEndpointsFollowTheMembersIfAsked(t *testing.T) {
	cfg, err := parsed(t).config()
	require.NoError(t, err)
	assert.Zero(t, cfg.SyncEvery)
	cfg, err = parsed(t, "--sync-every", "1m").config()
	require.NoError(t, err)
	assert.Equal(t, time.Minute, cfg.SyncEvery)
	_, err = parsed(t, "--sync-every", "-1s").config()
	assert.Equal(t, ExitUsage, CodeOf(err))
}

func TestTheFirstContactHasSomeTime(t *testing.T) {
	assert.Equal(t, 5*time.Second, parsed(t).DialTimeout)
	assert.Equal(t, time.Minute, parsed(t, "--dial-timeout", "1m").DialTimeout)
	for _, wrong := range []string{"0", "0s", "-1s"} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		new(Connection).Flags(fs)
		assert.ErrorContains(t, fs.Parse([]string{"--dial-timeout=" + wrong}), "want more than 0")
	}
}

func TestCertificateWithoutKeyIsWrongUsage(t *testing.T) {
	_, err := parsed(t, "--cert", "x").config()
	assert.Equal(t, ExitUsage, CodeOf(err))
	_, err = parsed(t, "--cacert", "/no/such/file").config()
	assert.Equal(t, ExitUsage, CodeOf(err))
}

// A person who waits for a silent member is shown so, once. A person who is answered at once sees nothing, and
// cron has nothing to mail.
func TestAConnectionThatTakesLongSaysWhatItWaitsFor(t *testing.T) {
	for _, c := range []struct {
		takes   time.Duration
		watched bool
		want    string
	}{
		{connectingAfter - 1, true, ""},
		{5 * time.Second, true, "pawl: connecting to a:1, b:2\n"},
		{5 * time.Second, false, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			done := (&Connection{Endpoints: []string{"a:1", "b:2"}}).sayConnecting(&said, c.watched)
			time.Sleep(c.takes)
			done()
			assert.Equal(t, c.want, said.String())
		})
	}
}

func TestOnlyATerminalIsWatchedUnlessAsked(t *testing.T) {
	keys, terminal, err := pty.Open()
	require.NoError(t, err)
	defer keys.Close()
	defer terminal.Close()
	assert.True(t, new(Connection).Watched(terminal))
	log := logFile(t)
	assert.False(t, new(Connection).Watched(log))
	assert.True(t, (&Connection{Verbose: true}).Watched(log))
}

func logFile(t *testing.T) *os.File {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}
