package handlers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/locks"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// Whatever comes in, the answer is a clear refusal or a success: never an internal error,
// and never silence.
func FuzzCallsRefuseWhatCannotBeRight(f *testing.F) {
	fake := etcdfake.New(etcdfake.Options{Members: 1})
	f.Cleanup(fake.Close)
	client, err := pawl.Dial(context.Background(), pawl.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}})
	require.NoError(f, err)
	f.Cleanup(func() { _ = client.Close() })
	service := locks.New(client, locks.Config{Logger: slog.New(slog.DiscardHandler), Owner: "pawld", Table: table.Config{
		DefaultTTL: 3 * time.Second, MinTTL: 3 * time.Second, MaxTTL: 3 * time.Second, Sessions: 100, Locks: 100, Keep: time.Second,
	}})
	f.Cleanup(service.Drain)
	server := &Server{Locks: service, Client: client, Logger: slog.New(slog.DiscardHandler)}
	known := &peer.Listener{Kind: peer.Token, Hosts: func(string) bool { return true }}
	web := httptest.NewUnstartedServer(withToken(known, server.Handler()))
	web.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return known.Context(ctx, c) }
	web.Start()
	f.Cleanup(web.Close)
	const id = "0123456789abcdef0123456789abcdef"
	for _, body := range []string{
		`{}`, `[]`, `{"session":"` + id + `"}`, `{"session":"` + id + `","requestId":"` + id + `","names":["n"],"mode":"EXCLUSIVE"}`,
		`{"session":"` + id + `","requestIds":["` + id + `"]}`, `{"name":"n"}`, `{"name":"\u0000/%2F"}`, `{"prefix":"n"}`, "\x00\xff", `{"value":"!"}`,
	} {
		for method := range byte(8) {
			f.Add(method, body, "application/json")
		}
	}
	f.Add(byte(0), "\x00\x00\x00\x00\x02\x0a\x00", "application/grpc")
	f.Add(byte(1), "\x0a\xff\xff\xff\xff\x0f", "application/proto")
	methods := []string{"Acquire", "Renew", "Release", "Confirm", "Proclaim", "Leader", "List", "None"}
	f.Fuzz(func(t *testing.T, method byte, body, kind string) {
		if strings.Contains(body, "aitMs") || strings.Contains(body, "ait_ms") || strings.Contains(body, `\`) {
			return // it would wait
		}
		r, err := http.NewRequest(http.MethodPost, web.URL+"/pawl.v1.Locks/"+methods[int(method)%len(methods)], strings.NewReader(body))
		require.NoError(t, err)
		if strings.ContainsAny(kind, "\r\n\x00") {
			return
		}
		r.Header["Content-Type"] = []string{kind}
		resp, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
		if err != nil {
			if strings.Contains(err.Error(), "invalid header") {
				return
			}
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		if resp.StatusCode == http.StatusInternalServerError || strings.Contains(string(answer), `"internal"`) {
			t.Fatalf("%d: %s", resp.StatusCode, answer)
		}
	})
}

// withToken lets the fuzz in, as one that is known.
func withToken(l *peer.Listener, next http.Handler) http.Handler {
	l.Token = peer.HashOf("fuzz")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer fuzz")
		next.ServeHTTP(w, r)
	})
}
