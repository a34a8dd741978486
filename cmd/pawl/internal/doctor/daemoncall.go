package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// A daemon is a pawld, as its clients see it.
type daemon struct {
	http *http.Client
	base string
}

// daemonAt returns the pawld that serves a socket. What is not a path is wrong usage.
func daemonAt(socket string, within time.Duration) (*daemon, error) {
	if _, _, err := net.SplitHostPort(socket); socket == "" || strings.Contains(socket, "://") || err == nil && !strings.Contains(socket, "/") {
		return nil, cli.Usage("--daemon %q: want the path of pawld's socket", socket)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &daemon{http: &http.Client{Timeout: within, Transport: &http.Transport{DialContext: dial}}, base: "http://pawl"}, nil
}

// maxAnswer bounds an answer that is read.
const maxAnswer = 1 << 20

// A refusal is the error of a call that was refused.
type refusal struct{ Code, Message string }

func (r *refusal) Error() string { return cli.Plain(r.Message) }

// health returns the status that the daemon reports to its clients.
func (p *daemon) health(ctx context.Context) (status string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/grpc.health.v1.Health/Check", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(r)
	if err != nil {
		return "", errors.Unwrap(err) // without the URL, which is not what the user gave
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		refused := new(refusal)
		if json.Unmarshal(body, refused) != nil || refused.Code == "" {
			return "", fmt.Errorf("it answers %s, and is no pawld", cli.Plain(resp.Status))
		}
		return "", refused
	}
	var answer struct{ Status string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("its answer is no pawld's: %w", err)
	}
	return answer.Status, nil
}
