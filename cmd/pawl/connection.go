package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
)

// A connection is where the cluster is and who we are there: flags, and the
// variables of etcdctl for those that were not given.
type connection struct {
	endpoints         []string
	user, password    string
	cacert, cert, key string
	namespace         string
	dialTimeout       time.Duration
	embed             bool
	verbose           bool
}

const defaultEndpoint = "127.0.0.1:2379"

func (c *connection) flags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.endpoints, "endpoints", nil, "members of the etcd cluster, with commas between (or ETCDCTL_ENDPOINTS; default "+defaultEndpoint+")")
	fs.StringVar(&c.user, "user", "", "name:password, or a name alone with ETCDCTL_PASSWORD (or ETCDCTL_USER)")
	fs.StringVar(&c.password, "password", "", "password of --user; better in ETCDCTL_PASSWORD, where ps does not show it")
	fs.StringVar(&c.cacert, "cacert", "", "file of the authority that the members' certificates are verified with (or ETCDCTL_CACERT)")
	fs.StringVar(&c.cert, "cert", "", "file of our certificate (or ETCDCTL_CERT)")
	fs.StringVar(&c.key, "key", "", "file of our certificate's key (or ETCDCTL_KEY)")
	fs.StringVar(&c.namespace, "namespace", "", "put before every key (or PAWL_NAMESPACE)")
	fs.DurationVar(&c.dialTimeout, "dial-timeout", 5*time.Second, "how long to wait for a first member to answer")
	fs.BoolVar(&c.embed, "embed", false, "run against an etcd server in this process, gone when it ends")
	fs.BoolVarP(&c.verbose, "verbose", "v", false, "say on stderr what happens")
}

// environment fills in what no flag gave, as etcdctl does: an empty variable
// counts as none.
func (c *connection) environment(fs *pflag.FlagSet) {
	if v := os.Getenv("ETCDCTL_ENDPOINTS"); v != "" && !fs.Changed("endpoints") {
		c.endpoints = strings.Split(v, ",")
	}
	if v := os.Getenv("PAWL_NAMESPACE"); v != "" && !fs.Changed("namespace") {
		c.namespace = v
	}
	for name, field := range map[string]*string{
		"user": &c.user, "password": &c.password, "cacert": &c.cacert, "cert": &c.cert, "key": &c.key,
	} {
		if v := os.Getenv("ETCDCTL_" + strings.ToUpper(name)); v != "" && !fs.Changed(name) {
			*field = v
		}
	}
	if len(c.endpoints) == 0 {
		c.endpoints = []string{defaultEndpoint}
	}
}

// config is c for pawl.Dial. What is wrong with it is wrong usage.
func (c *connection) config() (pawl.Config, error) {
	cfg := pawl.Config{Endpoints: c.endpoints, Namespace: c.namespace, Logger: c.logger()}
	var err error
	if cfg.Username, cfg.Password, err = c.login(); err != nil {
		return pawl.Config{}, err
	}
	if cfg.TLS, err = c.tls(); err != nil {
		return pawl.Config{}, err
	}
	return cfg, nil
}

// login splits --user at its first colon, unless the password came separately.
func (c *connection) login() (user, password string, err error) {
	if c.user == "" || c.password != "" {
		return c.user, c.password, nil
	}
	user, password, ok := strings.Cut(c.user, ":")
	if !ok {
		return "", "", usage("--user: no password for %q: give name:password, or ETCDCTL_PASSWORD", user)
	}
	return user, password, nil
}

func (c *connection) tls() (*tls.Config, error) {
	if c.cacert == "" && c.cert == "" && c.key == "" {
		return nil, nil
	}
	if (c.cert == "") != (c.key == "") {
		return nil, usage("--cert and --key belong together")
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.cacert != "" {
		pem, err := os.ReadFile(c.cacert)
		if err != nil {
			return nil, usage("--cacert: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--cacert: %s holds no certificate", c.cacert)
		}
	}
	if c.cert == "" {
		return t, nil
	}
	if _, err := tls.LoadX509KeyPair(c.cert, c.key); err != nil {
		return nil, usage("--cert, --key: %w", err)
	}
	cert, key := c.cert, c.key
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key) // each time again, because it may have been rotated
		return &pair, err
	}
	return t, nil
}

func (c *connection) logger() *slog.Logger {
	if !c.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// target is where to connect to, as pawl.Dial wants it; with --embed, that is server,
// which is then to be closed.
func (c *connection) target(fs *pflag.FlagSet) (cfg pawl.Config, server *embedded, err error) {
	c.environment(fs)
	if cfg, err = c.config(); err != nil || !c.embed {
		return cfg, nil, err
	}
	if server, err = startEmbedded(embedOptions{quick: true}); err != nil {
		return cfg, nil, fmt.Errorf("--embed: %w", err)
	}
	cfg.Endpoints, cfg.TLS, cfg.Username, cfg.Password = []string{server.endpoint}, nil, "", ""
	return cfg, server, nil
}

// open connects, to a server of our own with --embed. closed ends what it made.
func (c *connection) open(ctx context.Context, fs *pflag.FlagSet) (client *pawl.Client, closed func() error, err error) {
	cfg, server, err := c.target(fs)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithTimeout(ctx, c.dialTimeout)
	defer cancel()
	client, err = pawl.Dial(within, cfg)
	if err != nil {
		err = errors.Join(err, server.Close())
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, cause
		}
		return nil, nil, exit(dialCode(err), err)
	}
	return client, func() error { return errors.Join(client.Close(), server.Close()) }, nil
}

// dialCode tells a configuration that cannot be right from a cluster that does
// not answer: a member that was reached has left a gRPC status in err.
func dialCode(err error) int {
	_, asked := status.FromError(err)
	if asked || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pawl.ErrClusterChanged) {
		return exitNoCluster
	}
	return exitUsage
}
