package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/tlsfiles"
)

// A Connection holds the cluster's address and the user's credentials, from flags, and from
// etcdctl's variables for flags that were not given.
type Connection struct {
	Endpoints         []string
	user, password    string
	cacert, cert, key string
	Namespace         string
	DialTimeout       time.Duration
	syncEvery         time.Duration
	tokenFloor        int64
	Embed             bool
	ReclaimDir        string // of a command under a lock
	Verbose           bool
}

const defaultEndpoint = "127.0.0.1:2379"

func (c *Connection) Flags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.Endpoints, "endpoints", nil, "members of the etcd cluster, with commas between (or ETCDCTL_ENDPOINTS; default "+defaultEndpoint+")")
	fs.StringVar(&c.user, "user", "", "name:password, or a name alone with ETCDCTL_PASSWORD (or ETCDCTL_USER)")
	fs.StringVar(&c.password, "password", "", "password of --user; better in ETCDCTL_PASSWORD, where ps does not show it")
	fs.StringVar(&c.cacert, "cacert", "", "CA file for the members' certificates (or ETCDCTL_CACERT)")
	fs.StringVar(&c.cert, "cert", "", "file of the client certificate (or ETCDCTL_CERT)")
	fs.StringVar(&c.key, "key", "", "file of the client certificate's key (or ETCDCTL_KEY)")
	fs.StringVar(&c.Namespace, "namespace", "", "prefix of every key (or PAWL_NAMESPACE)")
	c.DialTimeout = 5 * time.Second
	fs.Var((*positive)(&c.DialTimeout), "dial-timeout", "how long to wait for the first member to answer")
	fs.DurationVar(&c.syncEvery, "sync-every", 0, "how often the endpoints are replaced by those that the members advertise; 0 means never")
	fs.BoolVar(&c.Embed, "embed", false, "run against an etcd server in this process, which ends with it")
	fs.BoolVarP(&c.Verbose, "verbose", "v", false, "report on stderr what happens")
}

// AcquireFlags adds the flags of a command that acquires.
func (c *Connection) AcquireFlags(fs *pflag.FlagSet) {
	fs.Int64Var(&c.tokenFloor, "token-floor", 0, "acquire nothing with a token at or below this: after a restored backup, the highest that the storage has seen")
}

// A positive is a flag's value: a duration of more than 0.
type positive time.Duration

func (p *positive) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if d <= 0 {
		return errors.New("want more than 0")
	}
	*p = positive(d)
	return nil
}

func (p *positive) String() string { return time.Duration(*p).String() }

func (*positive) Type() string { return "duration" }

// environment fills in what no flag gave, as etcdctl does. It refuses an empty variable, which would
// lead to another cluster, user or namespace than was meant. With --embed it uses PAWL_NAMESPACE alone.
func (c *Connection) environment(fs *pflag.FlagSet) error {
	variables := map[string]string{"namespace": "PAWL_NAMESPACE"}
	if !c.Embed {
		for _, name := range []string{"endpoints", "user", "password", "cacert", "cert", "key"} {
			variables[name] = "ETCDCTL_" + strings.ToUpper(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		v, ok := os.LookupEnv(variables[name])
		switch {
		case !ok || fs.Changed(name):
		case isEmpty(v):
			return Usage("%s is set, and empty: unset it, or give --%s", variables[name], name)
		case name == "endpoints":
			c.Endpoints = strings.Split(v, ",")
		default:
			_ = fs.Lookup(name).Value.Set(v) // any text will do
		}
	}
	if len(c.Endpoints) == 0 {
		c.Endpoints = []string{defaultEndpoint}
	}
	return nil
}

// isEmpty reports whether a flag's or variable's text is empty, or a list of nothing.
func isEmpty(text string) bool { return strings.Trim(text, "[], ") == "" }

// RefuseEmpty refuses flags that were given without a value, as a script's variable that is not set
// leaves them.
func RefuseEmpty(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		text := f.Value.Type() == "string" || f.Value.Type() == "stringSlice"
		if text && isEmpty(f.Value.String()) {
			err = Usage("--%s is given, and empty: leave it out", f.Name)
		}
	})
	return err
}

// config returns c for pawl.Dial. An invalid c is wrong usage.
func (c *Connection) config() (pawl.Config, error) {
	if c.syncEvery < 0 {
		return pawl.Config{}, Usage("--sync-every is %v, want 0 or more", c.syncEvery)
	}
	if c.tokenFloor < 0 {
		return pawl.Config{}, Usage("--token-floor is %d, want a token, or 0 for none", c.tokenFloor)
	}
	cfg := pawl.Config{Endpoints: c.Endpoints, Namespace: c.Namespace, SyncEvery: c.syncEvery, Logger: c.Logger(), TokenFloor: fencing.Token(c.tokenFloor), ReclaimDir: c.ReclaimDir}
	var err error
	if cfg.Username, cfg.Password, err = c.login(); err != nil {
		return pawl.Config{}, err
	}
	if cfg.TLSFiles, err = c.tlsFiles(); err != nil {
		return pawl.Config{}, err
	}
	return cfg, nil
}

// login splits --user at its first colon, unless the password came separately, also in a variable.
func (c *Connection) login() (user, password string, err error) {
	if c.user == "" || c.password != "" {
		return c.user, c.password, nil
	}
	user, password, ok := strings.Cut(c.user, ":")
	if !ok {
		return "", "", Usage("--user: no password for %q: give name:password, or ETCDCTL_PASSWORD", user)
	}
	return user, password, nil
}

// tlsFiles returns the names of the PEM files, which are checked.
func (c *Connection) tlsFiles() (pawl.TLSFiles, error) {
	names := tlsfiles.Names{CA: c.cacert, Cert: c.cert, Key: c.key}
	if _, err := tlsfiles.Open(names, tlsfiles.Labels{CA: "--cacert", Pair: "--cert and --key"}); err != nil {
		return pawl.TLSFiles{}, Usage("%w", err)
	}
	return pawl.TLSFiles(names), nil
}

// Logger logs to stderr, and only errors without --verbose.
func (c *Connection) Logger() *slog.Logger {
	level := slog.LevelError
	if c.Verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(Stderr, &slog.HandlerOptions{Level: level}))
}

// Target returns the Config for pawl.Dial. With --embed it also returns the server that the Config
// leads to, which the caller has to close.
func (c *Connection) Target(fs *pflag.FlagSet) (cfg pawl.Config, server *Server, err error) {
	if err := c.environment(fs); err != nil {
		return cfg, nil, err
	}
	if cfg, err = c.config(); err != nil || !c.Embed {
		return cfg, nil, err
	}
	if server, err = StartServer(ServerOptions{Quick: true}); err != nil {
		return cfg, nil, fmt.Errorf("--embed: %w", err)
	}
	cfg.Endpoints, cfg.TLSFiles, cfg.Username, cfg.Password = []string{server.Endpoint}, pawl.TLSFiles{}, "", ""
	return cfg, server, nil
}

// Open connects, with --embed to a new server. closed ends what it made.
func (c *Connection) Open(ctx context.Context, fs *pflag.FlagSet) (client *pawl.Client, closed func() error, err error) {
	cfg, server, err := c.Target(fs)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	said := c.sayConnecting(Stderr, c.Watched(os.Stderr))
	client, err = pawl.Dial(within, cfg)
	said()
	if err != nil {
		err = errors.Join(err, server.Close())
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, cause
		}
		return nil, nil, Exit(dialCode(err), err)
	}
	return client, func() error { return errors.Join(client.Close(), server.Close()) }, nil
}

// connectingAfter is how long connecting may take before a person is shown what pawl waits for.
const connectingAfter = time.Second

// Watched reports whether somebody reads on stderr what pawl does meanwhile. cron would mail it.
func (c *Connection) Watched(stderr *os.File) bool { return c.Verbose || IsTerminal(stderr) }

// sayConnecting writes one line, if somebody reads it, unless done is called in time.
func (c *Connection) sayConnecting(to io.Writer, watched bool) (done func()) {
	said := make(chan struct{})
	timer := time.AfterFunc(connectingAfter, func() {
		defer close(said)
		if watched {
			fmt.Fprintf(to, "pawl: connecting to %s\n", strings.Join(c.Endpoints, ", "))
		}
	})
	return func() {
		if !timer.Stop() {
			<-said
		}
	}
}

// dialCode distinguishes an invalid configuration from a cluster that does not answer. If a member
// was reached, err contains a gRPC status.
func dialCode(err error) int {
	_, answered := status.FromError(err)
	if answered || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pawl.ErrClusterChanged) {
		return ExitNoCluster
	}
	return ExitUsage
}
