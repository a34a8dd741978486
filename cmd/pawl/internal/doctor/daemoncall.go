package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// A daemon is a pawld, as its clients see it.
type daemon struct {
	http   *http.Client
	base   string
	serves string // what its last answer said of it, or "" if it did not say
}

// daemonAt returns the pawld at the value of --daemon. An invalid value is wrong usage.
func daemonAt(at string, within time.Duration) (p *daemon, socket string, err error) {
	wrong := cli.Usage("--daemon %q: want the path of pawld's socket, or http://HOST:PORT, which is its --health", at)
	if strings.Contains(at, "://") {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, "", wrong
		}
		return &daemon{http: &http.Client{Timeout: within}, base: "http://" + u.Host}, "", nil
	}
	if _, _, err := net.SplitHostPort(at); at == "" || err == nil && !strings.Contains(at, "/") {
		return nil, "", wrong
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", at)
	}
	return &daemon{http: &http.Client{Timeout: within, Transport: &http.Transport{DialContext: dial}}, base: "http://pawl"}, at, nil
}

// maxAnswer bounds an answer that is read.
const maxAnswer = 1 << 20

// do sends a request, and returns the answer, whatever its status.
func (p *daemon) do(r *http.Request) (*http.Response, []byte, error) {
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, nil, errors.Unwrap(err) // without the URL, which is not what the user gave
	}
	defer resp.Body.Close()
	p.serves = resp.Header.Get("Server")
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp, body, err
}

// A refusal is the error of a call that was refused.
type refusal struct{ Code, Message string }

func (r *refusal) Error() string { return cli.Plain(r.Message) }

// call makes one call of the API, and reads the answer into out.
func (p *daemon) call(ctx context.Context, path string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, body, err := p.do(r)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		refused := new(refusal)
		if json.Unmarshal(body, refused) != nil || refused.Code == "" {
			return fmt.Errorf("it answers %s, and is no pawld", cli.Plain(resp.Status))
		}
		return refused
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("its answer is no pawld's: %w", err)
	}
	return nil
}
