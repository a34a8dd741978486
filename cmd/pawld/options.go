package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawl-locks/pawl/lease"
)

// options are the flags.
type options struct {
	endpoints         []string
	user, password    string
	cacert, cert, key string
	namespace         string
	syncEvery         time.Duration
	embed, verbose    bool

	socket, group         string
	listen, clientCA      string
	serverCert, serverKey string
	tokenFile             string
	health                string
	stateDir, policy      string
	discardState          bool
	maxTTL, lockDelay     time.Duration
	stopGrace             time.Duration
	tokenFloor            int64
	sessions, locks       int
	connections, calls    int
	config                string
	version               bool
}

const usage = `pawld acquires locks and elections on etcd for programs in any language.

  pawld --embed                          for a first try, with an etcd server of its own
  pawld --endpoints 10.0.0.1:2379        for this machine, on /run/pawl/pawld.sock

With --state-dir, SIGTERM and SIGHUP leave all locks to the next pawld. SIGINT releases them.

`

// parse reads the flags, and, for flags that were not given, the file of --config and then the
// environment. It writes what --help says to help.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	fs := pflag.NewFlagSet("pawld", pflag.ContinueOnError)
	fs.SetOutput(help)
	fs.Usage = func() { fmt.Fprint(help, usage, fs.FlagUsages()) } // for --help alone
	fs.SortFlags = false
	fs.StringSliceVar(&o.endpoints, "endpoints", nil, "members of the etcd cluster, with commas between (or ETCDCTL_ENDPOINTS; default 127.0.0.1:2379)")
	fs.StringVar(&o.user, "user", "", "name:password at etcd (or ETCDCTL_USER)")
	fs.StringVar(&o.password, "password", "", "password of --user; better in ETCDCTL_PASSWORD")
	fs.StringVar(&o.cacert, "cacert", "", "CA file for etcd's certificates (or ETCDCTL_CACERT)")
	fs.StringVar(&o.cert, "cert", "", "file of pawld's client certificate for etcd (or ETCDCTL_CERT)")
	fs.StringVar(&o.key, "key", "", "file of its key (or ETCDCTL_KEY)")
	fs.StringVar(&o.namespace, "namespace", "", "prefix of every key (or PAWL_NAMESPACE)")
	fs.DurationVar(&o.syncEvery, "sync-every", 0, "how often the endpoints are replaced by those that the members advertise; 0 means never")
	fs.BoolVar(&o.embed, "embed", false, "run an etcd server in this process, which ends with it")
	fs.StringVar(&o.socket, "socket", "/run/pawl/pawld.sock", "Unix socket to serve on; empty means none. A socket that systemd passes takes precedence")
	fs.StringVar(&o.group, "socket-group", "", "group that may use the socket")
	fs.StringVar(&o.listen, "listen", "", "HOST:PORT to serve on, with mutual TLS, or on loopback with --token-file")
	fs.StringVar(&o.serverCert, "listen-cert", "", "file of the server certificate for --listen")
	fs.StringVar(&o.serverKey, "listen-key", "", "file of its key")
	fs.StringVar(&o.clientCA, "client-ca", "", "CA file for the clients' certificates")
	fs.StringVar(&o.tokenFile, "token-file", "", "file with a token for clients on loopback; a new one counts at the next request")
	fs.StringVar(&o.health, "health", "", "HOST:PORT for /livez, /readyz and /metrics")
	fs.StringVar(&o.stateDir, "state-dir", "", "directory that keeps locks across a restart; without it they are not kept")
	fs.BoolVar(&o.discardState, "discard-state", false, "start although the file in --state-dir cannot be used, and remove it: its clients lose their locks, which stay blocked for as long as the predecessor's session at etcd lasts, twice its --max-ttl")
	fs.StringVar(&o.policy, "policy", "", "file with the names that each identity may use; without it all on the Unix socket, none on --listen")
	fs.DurationVar(&o.maxTTL, "max-ttl", 15*time.Second, "the longest TTL of a client's session; pawld's own at etcd is twice that")
	fs.DurationVar(&o.lockDelay, "lock-delay", 0, "how long nobody else gets a lock that pawld takes from a client, or loses; 0 means none")
	fs.DurationVar(&o.stopGrace, "stop-grace", 0, "how long SIGTERM and SIGHUP go on serving with --state-dir while clients hold locks, for clients that are stopped at the same time; 0 means not")
	fs.Int64Var(&o.tokenFloor, "token-floor", 0, "acquire nothing with a token at or below this: after a restored backup, the highest that the storage has seen")
	fs.IntVar(&o.sessions, "max-sessions", 1000, "largest number of sessions")
	fs.IntVar(&o.locks, "max-locks", 10000, "largest number of locks and waiters")
	fs.IntVar(&o.connections, "max-connections", 8192, "largest number of connections of each listener; more are closed at once. One user, or on --listen one host, has at most half of them")
	fs.IntVar(&o.calls, "max-calls", 4096, "largest number of calls at a time, half of them of one identity; more are refused, but for Renew and Release")
	fs.StringVar(&o.config, "config", "", "file with lines FLAG = VALUE, for flags that are not given")
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "report more on stderr")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.version {
		return o, nil
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q: want flags alone", fs.Arg(0))
	}
	if o.config != "" {
		if err := readConfig(fs, o.config); err != nil {
			return o, err
		}
	}
	if err := refuseEmpty(fs); err != nil {
		return o, err
	}
	for _, name := range ofTheCluster {
		if o.embed && fs.Changed(name) {
			return o, fmt.Errorf("--embed and --%s are both given, as flags or in --config: want one", name)
		}
	}
	if err := fromEnvironment(fs, o.embed); err != nil {
		return o, err
	}
	if len(o.endpoints) == 0 {
		o.endpoints = []string{"127.0.0.1:2379"}
	}
	if name, password, ok := strings.Cut(o.user, ":"); o.user != "" && o.password == "" {
		if !ok {
			return o, fmt.Errorf("--user: no password for %q: give name:password, or ETCDCTL_PASSWORD", name)
		}
		o.user, o.password = name, password
	}
	return o, o.check()
}

// readConfig sets flags that were not given from a file.
func readConfig(fs *pflag.FlagSet, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var errs []error
	seen := map[string]bool{}
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		f := fs.Lookup(name)
		switch {
		case !ok:
			err = errors.New("want FLAG = VALUE")
		case f == nil, name == "config", name == "version":
			err = fmt.Errorf("there is no %q to be set here", name)
		case seen[name]:
			err = fmt.Errorf("%q stands on a line before", name)
		case f.Changed:
			err = nil
		default:
			if err = f.Value.Set(value); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		seen[name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("--config: %s:%d: %w", path, i+1, err))
		}
	}
	for name := range seen {
		if f := fs.Lookup(name); f != nil {
			f.Changed = true
		}
	}
	return errors.Join(errs...)
}

// ofTheCluster are the flags for an existing cluster, as etcdctl has them. With --embed they are
// refused, and their variables, which may be set for etcdctl, are ignored.
var ofTheCluster = []string{"endpoints", "user", "password", "cacert", "cert", "key"}

// fromEnvironment sets, from the same variables as etcdctl, what neither flags nor file gave.
func fromEnvironment(fs *pflag.FlagSet, embed bool) error {
	names := map[string]string{"namespace": "PAWL_NAMESPACE"}
	if !embed {
		for _, name := range ofTheCluster {
			names[name] = "ETCDCTL_" + strings.ToUpper(name)
		}
	}
	for name, variable := range names {
		v, ok := os.LookupEnv(variable)
		switch {
		case !ok || fs.Changed(name):
		case strings.Trim(v, ", ") == "":
			return fmt.Errorf("%s is set, and empty: unset it, or give --%s", variable, name)
		default:
			if err := fs.Set(name, v); err != nil {
				return fmt.Errorf("%s: %w", variable, err)
			}
		}
	}
	return nil
}

// refuseEmpty refuses flags that were given without a value, as a script's variable that is not set
// leaves them. An empty --socket means none.
func refuseEmpty(fs *pflag.FlagSet) (err error) {
	fs.VisitAll(func(f *pflag.Flag) {
		text := f.Value.Type() == "string" || f.Value.Type() == "stringSlice"
		if f.Changed && text && strings.Trim(f.Value.String(), "[], ") == "" && f.Name != "socket" {
			err = fmt.Errorf("--%s is given, and empty: leave it out", f.Name)
		}
	})
	return err
}

// These bound --max-ttl. Twice it is the TTL of a session at etcd. It is far below lease.MaxTTL, because
// pawld's stop, and its clients' calls while it is away, last for as long as a TTL.
const (
	minTTL     = 3 * time.Second
	mostMaxTTL = 150 * time.Second
)

// session returns the options of pawld's session.
func (o options) session() lease.Options {
	return lease.Options{TTL: 2 * o.maxTTL, LockDelay: o.lockDelay}
}

// check reports options that do not go together.
func (o options) check() error {
	tls := o.serverCert != "" || o.serverKey != "" || o.clientCA != ""
	switch {
	case o.maxTTL < minTTL || o.maxTTL > mostMaxTTL:
		return fmt.Errorf("--max-ttl is %v, want %v to %v", o.maxTTL, minTTL, mostMaxTTL)
	case o.session().Check() != nil:
		return fmt.Errorf("--lock-delay is %v: %w", o.lockDelay, o.session().Check())
	case o.stopGrace < 0:
		return fmt.Errorf("--stop-grace is %v, want 0 or more", o.stopGrace)
	case o.stopGrace > 0 && o.stateDir == "":
		return errors.New("--stop-grace is for --state-dir: without it, SIGTERM releases what is held once no client relies on it")
	case o.syncEvery < 0:
		return fmt.Errorf("--sync-every is %v, want 0 or more", o.syncEvery)
	case o.tokenFloor < 0:
		return fmt.Errorf("--token-floor is %d, want a token, or 0 for none", o.tokenFloor)
	case o.sessions <= 0:
		return fmt.Errorf("--max-sessions is %d, want more than 0", o.sessions)
	case o.locks <= 0:
		return fmt.Errorf("--max-locks is %d, want more than 0", o.locks)
	case o.connections <= 0:
		return fmt.Errorf("--max-connections is %d, want more than 0", o.connections)
	case o.calls <= 0:
		return fmt.Errorf("--max-calls is %d, want more than 0", o.calls)
	case o.connections < o.calls+4*o.sessions: // half of it is one user's: half of the calls, and for each session a Renew and a Release
		return fmt.Errorf("--max-connections is %d, want %d or more, which is --max-calls plus four times --max-sessions: a session that gets no connection is not renewed, and releases nothing", o.connections, o.calls+4*o.sessions)
	case o.discardState && o.stateDir == "":
		return errors.New("--discard-state is for --state-dir")
	case (o.cert == "") != (o.key == ""):
		return errors.New("--cert and --key belong together")
	case o.listen == "" && (tls || o.tokenFile != ""):
		return errors.New("--listen-cert, --listen-key, --client-ca and --token-file are for --listen")
	case o.listen == "":
		return nil
	case tls && o.tokenFile != "":
		return errors.New("--token-file is for --listen without TLS")
	case tls && (o.serverCert == "" || o.serverKey == "" || o.clientCA == ""):
		return errors.New("--listen wants --listen-cert, --listen-key and --client-ca together")
	case !tls && o.tokenFile == "":
		return errors.New("--listen wants --listen-cert, --listen-key and --client-ca, or, on loopback, --token-file")
	}
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if ip := net.ParseIP(host); o.tokenFile != "" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen %s is not on loopback, and a token is for loopback alone: want 127.0.0.1:PORT", o.listen)
	}
	return nil
}
