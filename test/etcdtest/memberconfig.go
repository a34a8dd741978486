package etcdtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/loopback"
)

// versionOf asks an etcd binary for its version.
func versionOf(binary string) (string, error) {
	out, err := exec.Command(binary, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w: %s", binary, err, out)
	}
	m := regexp.MustCompile(`etcd Version: (\d+\.\d+)\.`).FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s does not report its version: %s", binary, out)
	}
	return string(m[1]), nil
}

// sharesPorts reports whether a member can listen on a port that we keep a socket of, which etcd
// can since 3.5.
func (c *Cluster) sharesPorts() bool { return loopback.Shared && c.version != "3.4" }

// writeConfig writes what the member's process reads, in etcd's format (its --config-file is YAML,
// and JSON is YAML).
func (m *Member) writeConfig() error {
	o := m.cluster.opts
	tick := o.Heartbeat.Milliseconds()
	cfg := map[string]any{
		"name":                        m.name,
		"data-dir":                    m.path("data"),
		"listen-client-urls":          m.clientScheme() + m.client.String(),
		"advertise-client-urls":       m.Endpoint(),
		"listen-peer-urls":            "http://" + m.peer.String(),
		"initial-advertise-peer-urls": m.peerURL(),
		"initial-cluster":             m.initial,
		"initial-cluster-state":       m.state,
		"initial-cluster-token":       m.cluster.name,
		"heartbeat-interval":          tick,
		"election-timeout":            tick * int64(cmp.Or(o.ElectionTicks, 10)),
		"quota-backend-bytes":         o.QuotaBytes,
		"max-txn-ops":                 cmp.Or(o.MaxTxnOps, 128),
		"bcrypt-cost":                 4, // the least: a test's passwords need no protection
		"auth-token-ttl":              int64(cmp.Or((o.TokenTTL+time.Second-1)/time.Second, 300)),
		"unsafe-no-fsync":             !o.Fsync,
		"socket-options":              map[string]any{"reuse-port": m.cluster.sharesPorts()},
		"logger":                      "zap",
		"log-level":                   cmp.Or(o.LogLevel, "warn"),
		"log-outputs":                 []string{"stderr"},
	}
	if o.JWT {
		cfg["auth-token"] = fmt.Sprintf("jwt,sign-method=HS256,priv-key=%s,ttl=%ds", m.cluster.jwtKey(), cfg["auth-token-ttl"])
	}
	if o.QuotaBytes > 0 {
		cfg["backend-batch-limit"] = 1 // so that the size in use is known after each write
	}
	if m.cluster.certs != nil {
		cfg["client-transport-security"] = map[string]any{
			"cert-file":        m.cluster.certs.path("server.pem"),
			"key-file":         m.cluster.certs.path("server.key"),
			"trusted-ca-file":  m.cluster.certs.path("ca.pem"),
			"client-cert-auth": o.ClientCerts,
		}
	}
	text, err := json.MarshalIndent(cfg, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(m.path("config.yaml"), text, 0o600)
}

func (m *Member) clientScheme() string {
	if m.cluster.certs != nil {
		return "https://"
	}
	return "http://"
}
