package queue

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
)

var update = flag.Bool("update", false, "write what was sent to testdata/requests")

const goldenDir = "testdata/requests"

// Every request of the engine has a text in testdata/requests: the operation's name, what it
// compares, and what it does then or else. Each file belongs to one of the scenarios and contains
// each shape of a request once. A request without a text fails the test, and so does a text without
// a request. If a transaction was changed on purpose, go test ./internal/queue -run
// TestEveryRequest -update writes the texts, and their diff shows what changed.
func TestEveryRequestIsAsItsGoldenTextSays(t *testing.T) {
	files := map[string]bool{}
	for name, play := range scenarios {
		file := strings.ReplaceAll(name, " ", "-") + ".txt"
		files[file] = true
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(goldenDir, file)
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				g := &golden{leases: map[int64]string{}, shapes: map[string]bool{}, whole: name == "a session"}
				w.f.Inject(etcdfake.Rule{Match: g.record})
				w.Cleanup(func() { // when the clients are closed
					if *update {
						require.NoError(t, os.WriteFile(path, g.text(), 0o644))
						return
					}
					want, err := os.ReadFile(path)
					require.NoError(t, err)
					assert.Equal(t, sortedTexts(want), sortedTexts(g.text()), "-update writes it again")
				})
				play(w)
			})
		})
	}
	all, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	for _, file := range all {
		assert.True(t, files[file.Name()], "%s has no scenario", file.Name())
	}
}

// Each operation that the engine's sources name is in one of the texts, and no other is.
func TestEveryOperationHasAGoldenText(t *testing.T) {
	inSources, golden := map[string]bool{}, map[string]bool{}
	collect := func(pattern, expression string, into map[string]bool) {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, found := range regexp.MustCompile(expression).FindAllSubmatch(text, -1) {
				into[string(found[1])] = true
			}
		}
	}
	const operation = `\b(?:Op:|kind, op :?= batch.\w+,|(?:readOwn|putKey)\(ctx,) "([^"]+)"`
	collect("*.go", operation, inSources)
	collect("../session/*.go", operation, inSources)
	collect(goldenDir+"/*.txt", `(?m)^([a-z].*)$`, golden)
	assert.Greater(t, len(inSources), 15)
	assert.Equal(t, inSources, golden)
}

// golden records the requests that a cluster receives, each shape once.
type golden struct {
	whole bool // with the requests that every session sends

	mu     sync.Mutex
	texts  []string
	shapes map[string]bool
	leases map[int64]string // their names, in the order in which they were granted
}

// ofOne matches what differs between requests of one shape: the leases and numbers of keys, and
// revisions.
var ofOne = regexp.MustCompile(`L\d+(?:-\d+)?|(?:= |at |revision )[1-9]\d*`)

// bySession are what each session sends at its beginning and its end.
var bySession = []string{"lease grant", "put session key", "lease revoke"}

// record records q. It is the Match of a rule, and matches nothing.
func (g *golden) record(q etcdfake.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch m := q.Message.(type) {
	case *pb.LeaseGrantRequest:
		g.leases[m.ID] = fmt.Sprint("L", 1+len(g.leases))
		g.add(q.Ops()[0], fmt.Sprintf("\tlease %s, TTL %d s\n", g.leases[m.ID], m.TTL))
	case *pb.LeaseRevokeRequest:
		g.add(q.Ops()[0], fmt.Sprintf("\tlease %s\n", g.leases[m.ID]))
	case *pb.TxnRequest:
		for _, op := range q.Ops() {
			for _, t := range q.Parts(op) {
				g.add(op, g.txn(t, "\t"))
			}
		}
	}
	return false
}

func (g *golden) add(op, text string) {
	text = op + "\n" + text
	if shape := ofOne.ReplaceAllString(text, "#"); !g.shapes[shape] && (g.whole || !slices.Contains(bySession, op)) {
		g.shapes[shape] = true
		g.texts = append(g.texts, text)
	}
}

func (g *golden) text() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return []byte(strings.Join(g.texts, "\n"))
}

// sortedTexts returns all's texts in alphabetical order, because it is chance which of two
// concurrent requests is sent first.
func sortedTexts(all []byte) string {
	texts := strings.Split(strings.TrimSuffix(string(all), "\n"), "\n\n")
	slices.Sort(texts)
	return strings.Join(texts, "\n\n")
}

// txn returns what t compares, and what it does then or else.
func (g *golden) txn(t *pb.TxnRequest, indent string) string {
	var b strings.Builder
	part := func(head string, lines []string) {
		for i, line := range lines {
			if i > 0 {
				head = ""
			}
			fmt.Fprintf(&b, "%s%-5s%s\n", indent, head, line)
		}
	}
	var compared []string
	for _, c := range t.Compare {
		compared = append(compared, g.compare(c))
	}
	part("if", compared)
	part("then", g.operations(t.Success, indent))
	part("else", g.operations(t.Failure, indent))
	return b.String()
}

func (g *golden) compare(c *pb.Compare) string {
	rest := etcdapi.Clone(c)
	what, to := "", int64(0)
	switch u := c.TargetUnion.(type) {
	case *pb.Compare_CreateRevision:
		what, to = "create", u.CreateRevision
	case *pb.Compare_ModRevision:
		what, to = "mod", u.ModRevision
	}
	rest.Key, rest.RangeEnd, rest.TargetUnion, rest.Target, rest.Result = nil, nil, nil, 0, 0
	is := map[pb.Compare_CompareResult]string{pb.Compare_EQUAL: "=", pb.Compare_GREATER: ">", pb.Compare_LESS: "<", pb.Compare_NOT_EQUAL: "!="}[c.Result]
	return fmt.Sprintf("%s of %s %s %d%s", what, g.keys(c.Key, c.RangeEnd), is, to, remainder(rest))
}

func (g *golden) operations(ops []*pb.RequestOp, indent string) (lines []string) {
	for _, op := range ops {
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			lines = append(lines, g.put(o.RequestPut))
		case *pb.RequestOp_RequestDeleteRange:
			lines = append(lines, g.delete(o.RequestDeleteRange))
		case *pb.RequestOp_RequestRange:
			lines = append(lines, g.read(o.RequestRange))
		case *pb.RequestOp_RequestTxn:
			lines = append(lines, "transaction\n"+strings.TrimSuffix(g.txn(o.RequestTxn, indent+strings.Repeat(" ", 10)), "\n"))
		}
	}
	return lines
}

func (g *golden) put(r *pb.PutRequest) string {
	rest := etcdapi.Clone(r)
	rest.Key, rest.Value, rest.Lease, rest.IgnoreLease = nil, nil, 0, false
	on := "no lease"
	switch {
	case r.IgnoreLease:
		on = "its lease"
	case r.Lease != 0:
		on = g.leases[r.Lease]
	}
	value := strconv.Quote(g.stable(r.Value))
	if strings.Contains(value, `\"nonce\":`) {
		value = "the session's identity, and a nonce"
	}
	return fmt.Sprintf("put %s on %s: %s%s", g.keys(r.Key, nil), on, value, remainder(rest))
}

func (g *golden) delete(r *pb.DeleteRangeRequest) string {
	rest := etcdapi.Clone(r)
	rest.Key, rest.RangeEnd, rest.PrevKv = nil, nil, false
	returned := ""
	if r.PrevKv {
		returned = ", and return it"
	}
	return fmt.Sprintf("delete %s%s%s", g.keys(r.Key, r.RangeEnd), returned, remainder(rest))
}

func (g *golden) read(r *pb.RangeRequest) string {
	rest := etcdapi.Clone(r)
	rest.Key, rest.RangeEnd, rest.Limit, rest.KeysOnly, rest.MinCreateRevision, rest.MaxCreateRevision, rest.Revision = nil, nil, 0, false, 0, 0, 0
	which := ""
	if len(r.RangeEnd) > 0 {
		which = fmt.Sprintf("%d keys of ", r.Limit)
	}
	if r.SortTarget == pb.RangeRequest_CREATE {
		which = fmt.Sprintf("%s %d created of ", map[pb.RangeRequest_SortOrder]string{pb.RangeRequest_ASCEND: "first", pb.RangeRequest_DESCEND: "last"}[r.SortOrder], r.Limit)
		rest.SortTarget, rest.SortOrder = 0, 0
	}
	text := "read " + which + g.keys(r.Key, r.RangeEnd)
	if r.MinCreateRevision > 0 {
		text += fmt.Sprintf(", created at %d or later", r.MinCreateRevision)
	}
	if r.MaxCreateRevision > 0 {
		text += fmt.Sprintf(", created at %d or before", r.MaxCreateRevision)
	}
	if r.Revision > 0 {
		text += fmt.Sprintf(", at revision %d", r.Revision)
	}
	if !r.KeysOnly {
		text += ", with values"
	}
	return text + remainder(rest)
}

// remainder returns the part of a message that the text does not describe.
func remainder(m etcdapi.Message) string {
	if etcdapi.Size(m) == 0 {
		return ""
	}
	return fmt.Sprintf(" {%v}", m)
}

// keys returns the text of a key, or of a range of keys.
func (g *golden) keys(key, end []byte) string {
	switch {
	case len(end) == 0:
		return g.stable(key)
	case bytes.Equal(end, txn.PrefixEnd(string(key))):
		return g.stable(key) + "*"
	}
	return fmt.Sprintf("[%s, %s)", g.stable(key), g.stable(end))
}

// stable replaces leases, whose IDs are random, by names.
func (g *golden) stable(text []byte) string {
	s := string(text)
	for id, name := range g.leases {
		s = strings.ReplaceAll(s, fmt.Sprintf("%x", id), name)
	}
	return s
}
