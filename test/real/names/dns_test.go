package names_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// dns is a DNS server that knows every name: it is on this machine.
type dns struct {
	conn net.PacketConn

	mu     sync.Mutex
	faults map[string]string        // by name
	asked  map[string]chan struct{} // by name, closed when it has been asked for since the last fault
}

// server is the resolver of this process.
var server *dns

// sideBySide is how many tests run at a time. They wait for the resolver.
const sideBySide = 24

func TestMain(m *testing.M) {
	testscale.SideBySide(sideBySide)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server = &dns{conn: conn, faults: make(map[string]string), asked: make(map[string]chan struct{})}
	over, end := context.WithCancel(context.Background())
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if over.Err() != nil {
			return nil, over.Err()
		}
		c, err := new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
		if err == nil {
			context.AfterFunc(over, func() { _ = c.Close() }) // Go's resolver waits for 5 s, whatever its context says
		}
		return c, err
	}}
	served := make(chan struct{})
	go func() { defer close(served); server.serve() }() // ends with conn
	code := m.Run()
	end()
	_ = conn.Close()
	<-served
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// be gives a name a fault, and returns a channel that is closed when the name has been asked for since.
func (d *dns) be(name, fault string) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := make(chan struct{})
	d.faults[name], d.asked[name] = fault, asked
	return asked
}

// fault returns a name's fault, and records that it was asked for.
func (d *dns) fault(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if asked := d.asked[name]; asked != nil {
		close(asked)
		d.asked[name] = nil
	}
	return d.faults[name]
}

func (d *dns) serve() {
	var answers sync.WaitGroup
	defer answers.Wait()
	for b := make([]byte, 2048); ; {
		n, from, err := d.conn.ReadFrom(b)
		if err != nil {
			return
		}
		var q dnsmessage.Message
		if q.Unpack(b[:n]) == nil && len(q.Questions) == 1 {
			answers.Go(func() { d.answer(q, from) })
		}
	}
}

// answer answers a question, unless its name is to be silent.
func (d *dns) answer(q dnsmessage.Message, to net.Addr) {
	asked := q.Questions[0]
	r := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: q.Questions,
	}
	address, empty := [4]byte{127, 0, 0, 1}, asked.Type != dnsmessage.TypeA
	switch d.fault(asked.Name.String()) {
	case "silent":
		return
	case "2 s late":
		time.Sleep(2 * time.Second)
	case "4 s late":
		time.Sleep(4 * time.Second)
	case "SERVFAIL":
		r.RCode = dnsmessage.RCodeServerFailure
	case "NXDOMAIN":
		r.RCode = dnsmessage.RCodeNameError
	case "empty":
		empty = true
	case "elsewhere":
		address = [4]byte{127, 0, 0, 77}
	}
	if !empty && r.RCode == dnsmessage.RCodeSuccess {
		r.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: address},
		}}
	}
	if out, err := r.Pack(); err == nil {
		_, _ = d.conn.WriteTo(out, to)
	}
}

// faults are those of a resolver.
var faults = []string{"SERVFAIL", "NXDOMAIN", "empty", "silent", "elsewhere", "2 s late", "4 s late"}

// nameOf returns a name that is the test's alone.
func nameOf(t *testing.T, i int) string {
	plain := strings.NewReplacer("/", ".", ",", "", "_", "-").Replace(strings.ToLower(t.Name()))
	name := fmt.Sprintf("m%d.%s.test.", i, plain)
	_, err := dnsmessage.NewName(name)
	require.NoError(t, err)
	return name
}
