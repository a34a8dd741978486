package etcdctl

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// utlVariable makes this binary etcdutl, as far as pages use it.
const utlVariable = "PAWL_INTEROP_ETCDUTL"

func utl() int {
	c := &cobra.Command{Use: "etcdutl"}
	c.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "")
	c.AddCommand(etcdutl.NewSnapshotCommand(), etcdutl.NewHashKVCommand())
	if c.Execute() != nil {
		return 1
	}
	return 0
}

var console = regexp.MustCompile("(?sm)^```console\n(.*?)^```")

// theirs are the commands of pages that are etcd's own, and those of pawl that need a
// cluster with users, in their order.
func theirs(t *testing.T, root string) (lines []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, b := range console.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(b[1], "\\\n", " ")) {
				line, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
				if ok && (strings.HasPrefix(line, "etcdctl ") || strings.HasPrefix(line, "etcdutl ") || strings.HasPrefix(line, "ETCDCTL_")) {
					lines = append(lines, line)
				}
			}
		}
		return err
	}))
	return lines
}

// tools puts etcdctl, etcdutl and pawl into a folder, and the scripts that pages run.
func tools(t *testing.T, root, dir string) {
	t.Helper()
	script := func(path, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	script("bin/etcdctl", "exec env "+ctlVariable+"=1 '"+os.Args[0]+`' "$@"`)
	script("bin/etcdutl", "exec env "+utlVariable+"=1 '"+os.Args[0]+`' "$@"`)
	script("backup.sh", `test -n "$ETCD_LOCK_KEY" && echo backed up`)
	script("nightly.sh", `test -n "$PAWL_TOKEN" && echo done`)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", "pawl"), "./cmd/pawl")
	build.Dir = root
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// What pages show of etcdctl and etcdutl is run as it stands there, on an etcd that asks for
// passwords, but for the paths, and for the lease in the key that is deleted.
func TestEtcdsCommandsInPagesRun(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	tools(t, root, dir)
	server := etcdtest.Start(t)
	server.EnableAuth(t, "all")
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: server.Endpoints(), Username: "root", Password: "all", Namespace: "locks/"})
	require.NoError(t, err)
	defer client.Close()
	shell := func(line string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "ETCDCTL_ENDPOINTS="+server.Addr(), "ETCDCTL_USER=root:all")
		return cmd
	}
	runs := func(line string) string {
		out, err := shell(line).CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
		return string(out)
	}
	seen := map[string]int{}
	for _, line := range theirs(t, root) {
		words := strings.Fields(line)
		seen[strings.Join(words[:2], " ")]++
		switch {
		case strings.HasPrefix(line, "etcdctl get") && strings.Contains(line, "nightly"):
			h, err := lock.New(client, "nightly", lock.Options{}).Acquire(t.Context())
			require.NoError(t, err)
			assert.Contains(t, runs(line), h.Key()+"\npawl:")
			require.NoError(t, h.Release(t.Context()))
		case strings.HasPrefix(line, "etcdctl del"):
			h, err := lock.New(client, "nightly", lock.Options{}).Acquire(t.Context())
			require.NoError(t, err)
			named := regexp.MustCompile(`locks/nightly/[0-9a-f]+-\d+$`)
			require.Regexp(t, named, line)
			assert.Equal(t, "1\n", runs(named.ReplaceAllLiteralString(line, h.Key())))
			<-h.Done()
			assert.ErrorIs(t, h.Err(), lock.ErrKeyDeleted)
		case strings.HasPrefix(line, "etcdctl watch"):
			watch := shell("exec " + line)
			out, err := watch.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, watch.Start())
			said := make(chan string)
			go func() { // ends with the process
				in := bufio.NewScanner(out)
				in.Scan()
				said <- in.Text()
				for in.Scan() {
				}
				close(said)
			}()
			for first := ""; first == ""; { // it does not say when it begins to watch
				runs("etcdctl put " + words[len(words)-1] + "x y")
				select {
				case first = <-said:
					assert.Equal(t, "PUT", first)
				default:
				}
			}
			require.NoError(t, watch.Process.Signal(syscall.SIGINT))
			for range said {
			}
			_ = watch.Wait()
		case strings.HasPrefix(line, "etcdctl lock"):
			assert.Contains(t, runs(line), "backed up")
		case strings.HasPrefix(line, "etcdutl "):
			runs("etcdctl snapshot save backup.db")
			runs(strings.ReplaceAll(line, "/var/lib/etcd", filepath.Join(dir, "restored")))
			revision := regexp.MustCompile(`^\d+, (\d+), `).FindStringSubmatch(runs("etcdutl hashkv restored/member/snap/db"))
			require.NotNil(t, revision)
			assert.Greater(t, len(revision[1]), 9, "raised by a billion: %s", revision[1])
		case strings.HasPrefix(line, "ETCDCTL_USER="):
			assert.Equal(t, "done\n", runs(line))
			out, err := shell(strings.Replace(line, "--namespace locks/", "--namespace other/", 1)).CombinedOutput()
			assert.Error(t, err, "%s", out) // what the role is for
		default:
			runs(line)
		}
	}
	assert.Equal(t, map[string]int{
		"etcdctl role": 2, "etcdctl user": 1, "ETCDCTL_USER=jobs:PASSWORD pawl": 1, "etcdctl get": 2, "etcdctl del": 1,
		"etcdctl watch": 1, "etcdctl lock": 1, "etcdutl snapshot": 1,
	}, seen)
}
