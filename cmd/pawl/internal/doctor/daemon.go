package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/version"
	"github.com/spf13/cobra"
)

// examineDaemon makes the checks of a daemon, and prints their results.
func examineDaemon(o *cli.Reader, cmd *cobra.Command, at, prefix string) error {
	for _, name := range []string{"endpoints", "user", "password", "cacert", "cert", "key", "namespace", "embed"} {
		if cmd.Flags().Changed(name) {
			return cli.Usage("--%s is for the cluster, and --daemon is given: want one", name)
		}
	}
	p, socket, err := daemonAt(at, o.DialTimeout)
	if err != nil {
		return err
	}
	if socket == "" && prefix != "" {
		return cli.Usage("%q: a PREFIX is for --daemon with a socket: --health has no locks", prefix)
	}
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	d := &doctor{out: cmd.OutOrStdout(), json: o.JSON, counts: map[string]int{}}
	if socket == "" {
		d.health(ctx, p)
	} else {
		d.daemon(ctx, p, socket, prefix)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return d.sum()
}

func (d *doctor) daemon(ctx context.Context, p *daemon, socket, prefix string) {
	d.clock()
	if !d.socket(ctx, socket) {
		return
	}
	d.state(socket)
	if d.ready(ctx, p) {
		d.probe(ctx, p, prefix)
	}
}

// ready checks that the daemon serves, and that a lock can be acquired. It returns false if the
// calls cannot be checked.
func (d *doctor) ready(ctx context.Context, p *daemon) bool {
	var health struct{ Status string }
	began := time.Now()
	err := p.call(ctx, "/grpc.health.v1.Health/Check", struct{}{}, &health)
	var refused *refusal
	do, limited := limit(err)
	switch {
	case limited:
		d.wrong("live", "", fmt.Sprintf("a limit is reached: %v", err), do)
		return false
	case errors.As(err, &refused):
		d.wrong("live", "", fmt.Sprintf("refuses this user: %v", err), "use it as a user whom pawld can identify: one of this user namespace")
		return false
	case err != nil:
		d.wrong("live", "", fmt.Sprintf("does not answer: %v", err), "see its log (journalctl -u pawld), and restart it: what it holds goes to the next one if it has a --state-dir")
		return false
	}
	d.ok("live", "", "answers in %s", cli.Span(time.Since(began)))
	d.version(p)
	if strings.TrimPrefix(health.Status, "SERVING_STATUS_") != "SERVING" {
		d.wrong("ready", "", "cannot acquire locks: etcd does not answer it, or it is stopping",
			"see its log (journalctl -u pawld); pawl doctor, with the --endpoints that pawld has, checks etcd")
		return false
	}
	d.ok("ready", "", "can acquire locks")
	return true
}

// limit reports whether an error says that a limit of pawld's is reached, and what to do about it. A
// connection beyond the limit is closed at once.
func limit(err error) (do string, reached bool) {
	var r *refusal
	switch {
	case errors.As(err, &r) && r.Code == "resource_exhausted":
		return "end what is not needed, or raise --max-sessions, --max-locks or --max-calls, or locks= and sessions= in the policy", true
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "see its log: if it says that a connection is refused, end connections that are not needed, or raise --max-connections", true
	}
	return "", false
}

// version says which pawld it is.
func (d *doctor) version(p *daemon) {
	if !strings.HasPrefix(p.serves, "pawld ") {
		d.odd("version", "", "it does not say which version of pawld it is", "make sure that pawld serves here, and upgrade it")
		return
	}
	d.ok("version", "", "%s; this is pawl %s", cli.Plain(p.serves), version.String())
}

// probeTTLs are the TTLs of the probe's session: the usual one, so that a machine that is slow does not
// lose the lock between two calls, and, if that is more than pawld's --max-ttl, the shortest that pawld
// accepts.
var probeTTLs = [...]time.Duration{15 * time.Second, 3 * time.Second}

const (
	probeWait = 500 * time.Millisecond // how long its Renew is parked
	lateWait  = 500 * time.Millisecond // how much longer that may take

	releaseWait = 3 * time.Second // how long the lock of a probe that failed may take to be released

	probeOwner = "pawl doctor"
)

// believed is how much of a TTL a client may believe.
func believed(ttl time.Duration) time.Duration { return ttl * 5 / 6 }

// A heldLock is what is read of a lock in an answer.
type heldLock struct {
	State, Why string
	Token      string
	ValidForMs string
}

func (l heldLock) valid() time.Duration {
	ms, _ := strconv.ParseInt(l.ValidForMs, 10, 64)
	return time.Duration(ms) * time.Millisecond
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

const locksPath = "/pawl.v1.Locks/"

// probe acquires a lock that nobody else uses, renews it and releases it.
func (d *doctor) probe(ctx context.Context, p *daemon, prefix string) {
	session := randomID()
	name := prefix + "pawl-doctor-" + session[:8]
	var acquired struct {
		State string
		Lock  heldLock
	}
	var began time.Time
	held := true
	defer func() { // always, even after an interrupt or a lost answer; otherwise it expires
		if held {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
			defer cancel()
			_ = p.call(ctx, locksPath+"Release", map[string]any{"session": session}, &struct{}{})
		}
	}()
	var ttl time.Duration
	var err error
	for _, ttl = range probeTTLs {
		began = time.Now()
		err = p.call(ctx, locksPath+"Acquire", map[string]any{
			"session": session, "requestId": randomID(), "names": []string{name}, "mode": "EXCLUSIVE",
			"ttlMs": ttl.Milliseconds(), "waitMs": min(p.http.Timeout*4/5, ttl).Milliseconds(), "owner": probeOwner,
		}, &acquired)
		if r := (*refusal)(nil); !errors.As(err, &r) || r.Code != "invalid_argument" {
			break
		}
	}
	if err != nil {
		held = d.refused(name, err)
		return
	}
	if acquired.State != "HELD" {
		d.wrong("calls", name, fmt.Sprintf("Acquire of a name that nobody uses is answered with %s", cli.Plain(acquired.State)), "see pawld's log, and pawl doctor for the cluster")
		return
	}
	took := time.Since(began)
	var renewed struct{ Locks []heldLock }
	began = time.Now()
	if err := p.call(ctx, locksPath+"Renew", map[string]any{"session": session, "waitMs": probeWait.Milliseconds()}, &renewed); err != nil {
		d.failed(name, "Renew is refused", err)
		return
	}
	waited := time.Since(began)
	if len(renewed.Locks) != 1 || renewed.Locks[0].State != "HELD" {
		why := "does not list it"
		if len(renewed.Locks) == 1 {
			why = "lists it as " + cli.Plain(renewed.Locks[0].State) + ", " + cli.Plain(renewed.Locks[0].Why)
		}
		d.wrong("calls", name, "is lost as soon as it is held: Renew "+why, "see pawld's log, and pawl doctor for the cluster")
		return
	}
	who := d.whoAmI(ctx, p, name)
	var released struct{ Results []struct{ Released bool } }
	err = p.call(ctx, locksPath+"Release", map[string]any{"session": session}, &released)
	if err != nil || len(released.Results) != 1 || !released.Results[0].Released {
		d.failed(name, "Release does not confirm that it was held", cmp.Or(err, errors.New("it was lost")))
		return
	}
	held = false
	d.ok("calls", "", "Acquire, Renew and Release work%s; a free lock takes %s, token %s", who, cli.Span(took), cli.Plain(acquired.Lock.Token))
	d.promise(ttl, promise{acquired.Lock.valid(), took}, promise{renewed.Locks[0].valid(), waited})
	d.waited(waited)
}

// whoAmI returns as whom pawld knows this user, or "" if pawld does not say.
func (d *doctor) whoAmI(ctx context.Context, p *daemon, name string) string {
	var list struct {
		Queues []struct{ Entries []struct{ Owner string } }
	}
	if p.call(ctx, locksPath+"List", map[string]any{"name": name}, &list) != nil || len(list.Queues) == 0 || len(list.Queues[0].Entries) == 0 {
		return ""
	}
	identity := strings.TrimSuffix(list.Queues[0].Entries[0].Owner, " "+strconv.Quote(probeOwner))
	return " for " + cli.Plain(identity)
}

// refused says why the probe's lock could not be acquired, and whether it may be held nevertheless.
func (d *doctor) refused(name string, err error) (perhaps bool) {
	var r *refusal
	if !errors.As(err, &r) {
		d.failed(name, "Acquire is not answered", err)
		return true
	}
	switch r.Code {
	case "permission_denied":
		d.odd("calls", name, fmt.Sprintf("this user may not use it: %v", err),
			"name a PREFIX that this user may use: pawl doctor --daemon SOCKET PREFIX; or give it names in the file of --policy, and restart pawld")
	case "invalid_argument":
		d.wrong("calls", name, fmt.Sprintf("Acquire is refused: %v", err), "choose another PREFIX; or pawld is of another version than this pawl")
	default:
		d.failed(name, "Acquire is refused", err)
		return r.Code != "resource_exhausted"
	}
	return false
}

// failed says what happened to a call of the probe's, or that a limit is reached.
func (d *doctor) failed(name, what string, err error) {
	if do, limited := limit(err); limited {
		d.wrong("calls", name, fmt.Sprintf("a limit is reached: %s: %v", what, err), do)
		return
	}
	d.wrong("calls", name, fmt.Sprintf("%s: %v", what, err), "see pawld's log, and pawl doctor for the cluster")
}

// A promise is how long a lock is valid according to an answer, and how long the answer took.
type promise struct{ valid, took time.Duration }

// promise checks how long the probe's lock was said to be valid. A pawld that did not run for a while
// restarts the TTLs of its clients, so an answer that took long may be valid for that much longer.
func (d *doctor) promise(ttl time.Duration, all ...promise) {
	usual := believed(ttl)
	least, most, wrong := usual, time.Duration(0), false
	for _, p := range all {
		least, most = min(least, p.valid), max(most, p.valid)
		wrong = wrong || p.valid > usual && p.valid > believed(ttl+p.took)
	}
	switch {
	case most > usual && !wrong:
		d.odd("promise", "", fmt.Sprintf("pawld did not run for a while, and a lock is valid for %v of a TTL of %v, which began again", most, ttl),
			"give it more CPU, and keep its machine from suspending or swapping: a client whose renewals are late loses its locks")
	case wrong:
		d.wrong("promise", "", fmt.Sprintf("a lock is said to be valid for %v of a TTL of %v: that is more than five sixths, and clocks may differ", most, ttl),
			"this is no pawld that keeps its rules: replace it")
	case least < usual*2/3:
		d.odd("promise", "", fmt.Sprintf("a lock is said to be valid for %v of a TTL of %v: pawld's own session at etcd is renewed late", least, ttl),
			"check pawld's CPU and its network to etcd; pawl doctor checks the cluster")
	default:
		d.ok("promise", "", "a lock is valid for %v of a TTL of %v, from before its request", least, ttl)
	}
}

// waited checks how long a Renew was parked, by this machine's clock.
func (d *doctor) waited(took time.Duration) {
	switch {
	case took < probeWait*9/10:
		d.wrong("pace", "", fmt.Sprintf("a wait of %v ended after %s: pawld's clock is faster than this machine's", probeWait, cli.Span(took)),
			"find out what sets the clock of pawld's machine or container")
	case took > probeWait+lateWait:
		d.odd("pace", "", fmt.Sprintf("a wait of %v ended after %s: pawld gets too little CPU", probeWait, cli.Span(took)),
			"give it more: a client whose renewals are late loses its locks")
	default:
		d.ok("pace", "", "a wait of %v took %s", probeWait, cli.Span(took))
	}
}
