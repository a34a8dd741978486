package blobfence_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A gcs is a Store on generation matches, as Google Cloud Storage has them in its XML API. A user who
// needs it would write this.
type gcs struct {
	client *http.Client
	bucket string // URL, with a slash at its end
}

func (g gcs) do(ctx context.Context, method, name string, body []byte, set map[string]string) (*http.Response, error) {
	sum := sha256.Sum256([]byte(name)) // object names there are UTF-8 without line ends
	r, err := http.NewRequestWithContext(ctx, method, g.bucket+hex.EncodeToString(sum[:]), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range set {
		r.Header.Set(k, v)
	}
	return g.client.Do(r)
}

func (g gcs) look(ctx context.Context, method, name string) (body []byte, m blobfence.Meta, at blobfence.Version, err error) {
	resp, err := g.do(ctx, method, name, nil, nil)
	if err != nil {
		return nil, m, "", err
	}
	defer resp.Body.Close()
	switch body, err = io.ReadAll(resp.Body); {
	case err != nil:
		return nil, m, "", err
	case resp.StatusCode == http.StatusNotFound:
		return nil, m, "", blobfence.ErrNotFound
	case resp.StatusCode != http.StatusOK:
		return nil, m, "", fmt.Errorf("%s: %s", resp.Status, body)
	}
	if text := resp.Header.Get("x-goog-meta-token"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, m, "", err
		}
		m = blobfence.Meta{Token: fencing.Token(n), Nonce: resp.Header.Get("x-goog-meta-nonce"), Absent: resp.Header.Get("x-goog-meta-absent") == "true"}
		ahead, err := strconv.ParseInt(resp.Header.Get("x-goog-meta-ahead"), 10, 64)
		if err != nil {
			return nil, m, "", err
		}
		m.Ahead = fencing.Token(ahead)
	}
	return body, m, blobfence.Version(resp.Header.Get("x-goog-generation")), nil
}

func (g gcs) Stat(ctx context.Context, name string) (blobfence.Meta, blobfence.Version, error) {
	_, m, at, err := g.look(ctx, http.MethodHead, name)
	return m, at, err
}

func (g gcs) Get(ctx context.Context, name string) ([]byte, blobfence.Meta, blobfence.Version, error) {
	return g.look(ctx, http.MethodGet, name)
}

// Put writes the object whole. To change its metadata alone would leave its generation as it was,
// and let an older holder's write through.
func (g gcs) Put(ctx context.Context, name string, body []byte, m blobfence.Meta, at blobfence.Version) error {
	if at == "" {
		at = "0" // the generation of what is not there
	}
	resp, err := g.do(ctx, http.MethodPut, name, body, map[string]string{
		"x-goog-if-generation-match": string(at),
		"x-goog-meta-token":          strconv.FormatInt(int64(m.Token), 10),
		"x-goog-meta-ahead":          strconv.FormatInt(int64(m.Ahead), 10),
		"x-goog-meta-nonce":          m.Nonce,
		"x-goog-meta-absent":         strconv.FormatBool(m.Absent),
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %s", blobfence.ErrChanged, text)
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		return fmt.Errorf("%w: %s: %s", blobfence.ErrNotApplied, resp.Status, text)
	case resp.StatusCode != http.StatusOK:
		return errors.Join(fmt.Errorf("%s: %s", resp.Status, text), err)
	}
	return nil
}

// A cloud is the other side, as it is documented. Every upload has a new generation, and generations
// need not rise.
type cloud struct {
	mu      sync.Mutex
	objects map[string]upload
}

type upload struct {
	generation string
	meta       http.Header
	body       []byte
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o, there := c.objects[r.URL.Path]
	if r.Method == http.MethodPut {
		if !there {
			o.generation = "0"
		}
		if want := r.Header.Get("x-goog-if-generation-match"); want != "" && want != o.generation {
			http.Error(w, "<Error><Code>PreconditionFailed</Code></Error>", http.StatusPreconditionFailed)
			return
		}
		o = upload{generation: strconv.FormatUint(1+rand.Uint64N(1<<62), 10), meta: http.Header{}, body: body}
		for k, v := range r.Header {
			if strings.HasPrefix(k, "X-Goog-Meta-") {
				o.meta[k] = v
			}
		}
		c.objects[r.URL.Path] = o
		w.Header().Set("x-goog-generation", o.generation)
		return
	}
	if !there {
		http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
		return
	}
	for k, v := range o.meta {
		w.Header()[k] = v
	}
	w.Header().Set("x-goog-generation", o.generation)
	_, _ = w.Write(o.body)
}

func openCloud(t *testing.T) blobfence.Store {
	server := httptest.NewServer(&cloud{objects: map[string]upload{}})
	t.Cleanup(server.Close)
	return gcs{server.Client(), server.URL + "/bucket/"}
}

func TestFenceOnGenerationMatchesPassesTheSuite(t *testing.T) {
	suite(openCloud, func(s blobfence.Store) blobfence.Store { return s }).Run(t)
}

func TestRegistrationGivesTheObjectANewGeneration(t *testing.T) {
	s := openCloud(t)
	f := blobfence.Fence{Store: s}
	require.NoError(t, f.Write(t.Context(), name, 41, []byte("a")))
	_, before, err := s.Stat(t.Context(), name)
	require.NoError(t, err)
	_, err = f.Read(t.Context(), name, 57)
	require.NoError(t, err)
	late := s.Put(t.Context(), name, []byte("late"), blobfence.Meta{Token: 41, Nonce: "LATE"}, before)
	assert.ErrorIs(t, late, blobfence.ErrChanged, "the older holder's write that was under way")
}
