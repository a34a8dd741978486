//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// workerEnv describes a worker process: its kit and number.
const workerEnv = "PAWL_COMPARE_WORKER"

const (
	setTTL   = 3 * time.Second
	setLasts = 40 * time.Second
)

// store is a set that is read and written as a whole, like a file.
type store struct {
	fenced bool
	gate   fencing.Gate

	mu        sync.Mutex
	elements  []int
	confirmed []int
	holder    int // the worker that read last, or 0 if it has written
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	token, _ := strconv.ParseInt(q.Get("token"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced {
		if err := s.gate.Admit("set", fencing.Token(token)); err != nil {
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
			return
		}
	}
	if r.Method == http.MethodGet {
		s.holder, _ = strconv.Atoi(q.Get("worker"))
		_ = json.NewEncoder(w).Encode(s.elements)
		return
	}
	var all []int
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.elements, s.holder = all, 0
	added, _ := strconv.Atoi(q.Get("added"))
	s.confirmed = append(s.confirmed, added)
}

// sets makes three processes add numbers to the store under the lock, repeatedly pauses the
// holder for longer than its session lives, and returns what was lost.
func sets(b *bench, k kit, fenced bool) string {
	s := &store{fenced: fenced}
	server := httptest.NewServer(s)
	b.t.Cleanup(server.Close)
	name := fmt.Sprintf("set-%d", time.Now().UnixNano())
	runtime.LockOSThread() // the kernel takes the death of the thread that started them for the parent's
	defer runtime.UnlockOSThread()
	var workers []*exec.Cmd
	self, err := os.Executable()
	b.must(err)
	for i := range 3 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s %s %s", workerEnv, k.name(), i+1, name, server.URL, strings.Join(b.c.Endpoints(), ",")))
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		b.must(cmd.Start())
		workers = append(workers, cmd)
	}
	for start := time.Now(); time.Since(start) < setLasts; time.Sleep(5 * time.Second) {
		s.pauseHolder(workers)
	}
	time.Sleep(2 * time.Second)
	for _, cmd := range workers {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := 0
	for _, e := range s.confirmed {
		if !slices.Contains(s.elements, e) {
			lost++
		}
	}
	return fmt.Sprintf("%d of %d", lost, len(s.confirmed))
}

// pauseHolder waits until a worker is between its read and its write, and stops
// its process there until its session has ended at the server.
func (s *store) pauseHolder(workers []*exec.Cmd) {
	holder := 0
	waitFor(10*time.Second, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		holder = s.holder
		return holder > 0
	})
	if holder == 0 {
		return
	}
	_ = workers[holder-1].Process.Signal(syscall.SIGSTOP)
	time.Sleep(setTTL + 4*time.Second) // and another worker reads and writes meanwhile
	_ = workers[holder-1].Process.Signal(syscall.SIGCONT)
}

// work is the main of a worker process. It adds numbers until it is killed. Right before it writes
// it checks whether it still holds, as well as its kit can.
func work(role string) int {
	f := strings.Fields(role)
	number, _ := strconv.Atoi(f[1])
	name, address, endpoints := f[2], f[3], strings.Split(f[4], ",")
	var k kit = ours{}
	if f[0] != k.name() {
		k = theirs{}
	}
	b := &bench{t: &scope{}}
	c := k.client(b, endpoints)
	s := c.session(setTTL)
	for n := 1; ; n++ {
		if s.over() {
			s = c.session(setTTL)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if h, err := s.lock(ctx, name); err == nil {
			add(h, number, number*1_000_000+n, address)
			_ = h.release(ctx)
		}
		cancel()
	}
}

// add reads, sleeps, checks whether it still holds, and writes.
func add(h held, worker, number int, address string) {
	q := url.Values{"token": {fmt.Sprint(h.token())}, "added": {fmt.Sprint(number)}, "worker": {fmt.Sprint(worker)}}
	r, err := http.Get(address + "?" + q.Encode())
	if err != nil {
		return
	}
	var all []int
	err = json.NewDecoder(r.Body).Decode(&all)
	_ = r.Body.Close()
	if err != nil || r.StatusCode != http.StatusOK {
		return
	}
	time.Sleep(rand.N(400 * time.Millisecond))
	if h.lost() {
		return
	}
	text, err := json.Marshal(append(all, number))
	if err != nil {
		return
	}
	r, err = http.Post(address+"?"+q.Encode(), "application/json", strings.NewReader(string(text)))
	if err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
}
