package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"go.yaml.in/yaml/v3"
)

// A unit is a unit file of systemd's: sections, and in them the values of each setting.
type unit map[string]map[string][]string

// settings are those of systemd's manual that our units may have, by section; what may be
// given several times has a plus.
var settings = map[string]string{
	"Unit":    "Description Documentation+ After+ Wants+ Requires+",
	"Install": "WantedBy+ Also+",
	"Socket":  "ListenStream+ SocketMode SocketUser SocketGroup RemoveOnStop DirectoryMode",
	"Service": "Type User Group ExecStart KillSignal TimeoutStopSec Restart RestartSec StateDirectory StateDirectoryMode UMask " +
		"NoNewPrivileges ProtectSystem ProtectHome PrivateTmp RestrictAddressFamilies MemoryDenyWriteExecute",
}

// stopWait is how long a stop of pawld may take: while etcd is out of space, twice the longest
// validity, and time for renewals, requests, etcd and the state directory.
func stopWait(maxTTL time.Duration) time.Duration {
	return spaceWait(maxTTL) + 2*maxTTL + service.RenewalsWait + 4*shutdownWait + 2*stateWait
}

// parseUnit reads a unit file as systemd.syntax(7) says, and refuses what systemd would
// ignore with a warning.
func parseUnit(t *testing.T, path string) unit {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	u, section := unit{}, ""
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			require.Contains(t, settings, section, "%s:%d", path, i+1)
			require.NotContains(t, u, section, "%s:%d", path, i+1)
			u[section] = map[string][]string{}
		default:
			name, value, ok := strings.Cut(line, "=")
			require.True(t, ok && section != "" && !strings.HasSuffix(line, `\`), "%s:%d: %s", path, i+1, line)
			known := strings.Fields(settings[section])
			require.True(t, slices.Contains(known, name) || slices.Contains(known, name+"+"), "%s:%d: %s has no %s", path, i+1, section, name)
			require.True(t, slices.Contains(known, name+"+") || u[section][name] == nil, "%s:%d: %s is given twice", path, i+1, name)
			u[section][name] = append(u[section][name], value)
		}
	}
	return u
}

func (u unit) one(t *testing.T, section, name string) string {
	t.Helper()
	require.Len(t, u[section][name], 1, "%s of [%s]", name, section)
	return u[section][name][0]
}

func TestVersionIsSaid(t *testing.T) {
	var out bytes.Buffer
	assert.Zero(t, run([]string{"--version"}, &out, io.Discard, nil))
	assert.Regexp(t, `^pawld version .*, go1\.\S+ \w+/\w+\n$`, out.String())
}

func TestTheUnitsAreSystemdsAndFitPawld(t *testing.T) {
	t.Parallel()
	service, socket := parseUnit(t, "deploy/pawld.service"), parseUnit(t, "deploy/pawld.socket")
	assert.Equal(t, "pawld.socket", service.one(t, "Unit", "Requires"))
	assert.Equal(t, "exec", service.one(t, "Service", "Type"))
	assert.Equal(t, "SIGTERM", service.one(t, "Service", "KillSignal"), "which leaves what is held to the next")
	assert.Equal(t, "0700", service.one(t, "Service", "StateDirectoryMode"))
	assert.Equal(t, "0077", service.one(t, "Service", "UMask"))
	seconds, err := strconv.Atoi(service.one(t, "Service", "TimeoutStopSec"))
	require.NoError(t, err)
	words := strings.Fields(service.one(t, "Service", "ExecStart"))
	o, err := parse([]string{}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, o.socket, socket.one(t, "Socket", "ListenStream"), "clients look there")
	assert.Greater(t, time.Duration(seconds)*time.Second, stopWait(o.maxTTL)+o.stopGrace, "a stop may take that long")
	assert.Equal(t, "0660", socket.one(t, "Socket", "SocketMode"))
	assert.Equal(t, service.one(t, "Service", "Group"), socket.one(t, "Socket", "SocketGroup"))

	config := "deploy/pawld.conf"
	for i, w := range words[1:] {
		words[1+i] = strings.NewReplacer("/etc/pawl/pawld.conf", config, "${STATE_DIRECTORY}", "/var/lib/pawld").Replace(w)
	}
	o, err = parse(words[1:], io.Discard)
	require.NoError(t, err, words)
	assert.Equal(t, "/var/lib/pawld", o.stateDir)
	assert.Equal(t, []string{"127.0.0.1:2379"}, o.endpoints)

	// The suggested settings are accepted once they are uncommented.
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	suggested := regexp.MustCompile(`(?m)^#([a-z-]+ = )`).ReplaceAll(text, []byte("$1"))
	all := filepath.Join(t.TempDir(), "pawld.conf")
	require.NoError(t, os.WriteFile(all, append(suggested, "password = secret\n"...), 0o600))
	o, err = parse([]string{"--config", all}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, "/etc/pawl/policy", o.policy)

	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // what it would say beyond the above is about the machine
	}
	dir := t.TempDir()
	text, err = os.ReadFile("deploy/pawld.service")
	require.NoError(t, err)
	text = bytes.Replace(text, []byte(words[0]), []byte(os.Args[0]), 1) // it looks for the program
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pawld.service"), text, 0o600))
	text, err = os.ReadFile("deploy/pawld.socket")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pawld.socket"), text, 0o600))
	out, err := exec.Command(verify, "verify", "--man=no", filepath.Join(dir, "pawld.service"), filepath.Join(dir, "pawld.socket")).CombinedOutput()
	assert.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), dir, "%s", out)
}

// The parts of Kubernetes' Pod that the manifest uses, with the types of k8s.io/api/core/v1.
type (
	manifest struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name string `yaml:"name"`
		} `yaml:"metadata"`
		Spec podSpec `yaml:"spec"`
	}
	podSpec struct {
		TerminationGracePeriodSeconds *int64 `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               struct {
			RunAsUser  *int64 `yaml:"runAsUser"`
			RunAsGroup *int64 `yaml:"runAsGroup"`
			FSGroup    *int64 `yaml:"fsGroup"`
		} `yaml:"securityContext"`
		InitContainers []container `yaml:"initContainers"`
		Containers     []container `yaml:"containers"`
		Volumes        []struct {
			Name     string `yaml:"name"`
			EmptyDir *struct {
				Medium string `yaml:"medium"`
			} `yaml:"emptyDir"`
		} `yaml:"volumes"`
	}
	container struct {
		Name           string   `yaml:"name"`
		Image          string   `yaml:"image"`
		RestartPolicy  string   `yaml:"restartPolicy"`
		Args           []string `yaml:"args"`
		StartupProbe   *probe   `yaml:"startupProbe"`
		LivenessProbe  *probe   `yaml:"livenessProbe"`
		ReadinessProbe *probe   `yaml:"readinessProbe"`
		VolumeMounts   []struct {
			Name      string `yaml:"name"`
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		HTTPGet struct {
			Path string `yaml:"path"`
			Port int32  `yaml:"port"`
		} `yaml:"httpGet"`
		PeriodSeconds    int32 `yaml:"periodSeconds"`
		FailureThreshold int32 `yaml:"failureThreshold"`
	}
)

func TestTheSidecarIsAPodThatFitsPawld(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("deploy/sidecar.yaml")
	require.NoError(t, err)
	var pod manifest
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	require.NoError(t, strict.Decode(&pod))
	assert.ErrorIs(t, strict.Decode(new(manifest)), io.EOF, "one document")
	assert.Equal(t, []string{"v1", "Pod"}, []string{pod.APIVersion, pod.Kind})
	require.NotEmpty(t, pod.Metadata.Name)

	require.Len(t, pod.Spec.InitContainers, 1)
	sidecar := pod.Spec.InitContainers[0]
	assert.Equal(t, "Always", sidecar.RestartPolicy, "a native sidecar starts before the others and ends after them")
	o, err := parse(sidecar.Args, io.Discard)
	require.NoError(t, err)
	grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	assert.Greater(t, grace, stopWait(o.maxTTL)+o.stopGrace, "a stop may take that long")
	_, port, err := net.SplitHostPort(o.health)
	require.NoError(t, err)
	for path, p := range map[string]*probe{"/livez": sidecar.LivenessProbe, "/livez ": sidecar.StartupProbe, "/readyz": sidecar.ReadinessProbe} {
		require.NotNil(t, p, path)
		assert.Equal(t, strings.TrimSpace(path), p.HTTPGet.Path)
		assert.Equal(t, port, strconv.Itoa(int(p.HTTPGet.Port)))
	}

	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		assert.NotNil(t, v.EmptyDir, v.Name)
		volumes[v.Name] = true
	}
	mounts := func(c container) map[string]string {
		all := map[string]string{}
		for _, m := range c.VolumeMounts {
			assert.True(t, volumes[m.Name], "%s of %s", m.Name, c.Name)
			all[m.MountPath] = m.Name
		}
		return all
	}
	mine := mounts(sidecar)
	state := filepath.Dir(o.stateDir)
	assert.Contains(t, mine, state, "the directory itself is pawld's, because a volume's root is writable to all")
	assert.NotContains(t, mine, o.stateDir)
	dir := filepath.Dir(o.socket)
	require.Contains(t, mine, dir)
	require.NotEmpty(t, pod.Spec.Containers)
	for _, c := range pod.Spec.Containers {
		assert.Equal(t, mine[dir], mounts(c)[dir], "%s finds the socket", c.Name)
		assert.NotContains(t, mounts(c), state, "it holds secrets")
	}
}

var pawldMetric = regexp.MustCompile(`\bpawld_\w+`)

// The dashboard and the alerts query metrics that there are, and the dashboard shows each.
func TestTheDashboardAndTheAlertsQueryMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "", "--health", "127.0.0.1:0")
	p.awaitReady()
	p.hold(1, 1, "n")
	there := map[string]bool{}
	for name := range p.metrics() {
		name, _, _ = strings.Cut(name, "{")
		there[name] = true
	}
	queried := map[string]bool{}
	for _, file := range []string{"deploy/alerts.yaml", "deploy/dashboard.json"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		queried = map[string]bool{}
		for _, name := range pawldMetric.FindAllString(string(text), -1) {
			assert.True(t, there[name], "%s: %s", file, name)
			queried[name] = true
		}
	}
	for name := range there {
		assert.True(t, queried[name], "no panel shows %s", name)
	}
}
