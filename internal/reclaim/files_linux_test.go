package reclaim

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// rule: RC1
func TestAFileIsThereWholeAndLockedUntilItsProcessDies(t *testing.T) {
	d := newDir(t)
	f := publish(t, d, left(7))
	names, err := d.Names()
	require.NoError(t, err)
	assert.Equal(t, []string{"0000000000000007-3"}, names)
	_, err = again(t, d).Claim(names[0])
	require.ErrorIs(t, err, ErrAlive)
	lost, err := f.Check()
	require.NoError(t, err)
	assert.False(t, lost)
	die(f)
	c, err := again(t, d).Claim(names[0])
	require.NoError(t, err)
	assert.Equal(t, left(7), c.Left)
	_, err = d.Claim(names[0])
	require.ErrorIs(t, err, ErrAlive, "one has the proof at a time")
	c.LetGo()
	c, err = d.Claim(names[0])
	require.NoError(t, err)
	require.NoError(t, c.remove())
	names, err = d.Names()
	require.NoError(t, err)
	assert.Empty(t, names)
}

// A directory is on a file system that frees the lock with the descriptor, such as overlayfs: here the
// mapping is missing.
// rule: RC1
func TestAFileThatIsNotLockedByMemoryIsNotPublished(t *testing.T) {
	d := newDir(t)
	f := publish(t, d, left(7))
	require.NoError(t, f.locked(f.name))
	die(f)
	require.ErrorIs(t, f.locked(f.name), errNotLocked)
}

// rule: RC1
func TestNoDescriptorOfAPublishedFileIsLeft(t *testing.T) {
	d := newDir(t)
	publish(t, d, left(7))
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		assert.False(t, err == nil && filepath.Dir(to) == d.path, "%s", to)
	}
}

// rule: RC2
func TestWhatIsNoProofClaimsNothing(t *testing.T) {
	rewrite := func(t *testing.T, path string, from, to string) {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), from)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
	}
	copyFile := func(t *testing.T, from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, text, 0o600))
	}
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, d *Dir, path string) (claimed string)
		want string
	}{
		{"a copy in its place", func(t *testing.T, d *Dir, path string) string {
			copyFile(t, path, path+".new")
			require.NoError(t, os.Rename(path+".new", path))
			return path
		}, "it is a copy"},
		{"a copy in a copied directory", func(t *testing.T, d *Dir, path string) string {
			to := filepath.Join(newDir(t).path, filepath.Base(path))
			copyFile(t, path, to)
			return to
		}, "it is a copy"},
		{"a second name", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Link(path, path+"x"))
			return path
		}, "it has 2 names"},
		{"another name", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Rename(path, path+"x"))
			return path + "x"
		}, "it was renamed"},
		{"another name that its content fits", func(t *testing.T, d *Dir, path string) string {
			rewrite(t, path, `"name":"0000000000000007-3"`, `"name":"0000000000000008-3"`)
			return path
		}, `it is of "0000000000000007-3"`},
		{"a name for a link", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Rename(path, path+"x"))
			require.NoError(t, os.Symlink(path+"x", path))
			return path
		}, "too many levels of symbolic links"},
		{"a pipe", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Remove(path))
			require.NoError(t, unix.Mkfifo(path, 0o600))
			return path
		}, "it is no file of a session"},
		{"a directory", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Mkdir(path+"x", 0o700))
			return path + "x"
		}, "it is no file of a session"},
		{"a file that is not published", func(t *testing.T, d *Dir, path string) string {
			hidden := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
			require.NoError(t, os.Rename(path, hidden))
			return hidden
		}, "is no published file"},
		{"nothing", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Truncate(path, 0))
			return path
		}, "its content: EOF"},
		{"half of it", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Truncate(path, 100))
			return path
		}, "its content: "},
		{"more than there can be", func(t *testing.T, d *Dir, path string) string {
			require.NoError(t, os.Truncate(path, maxSize+1))
			return path
		}, "it is no file of a session"},
		{"an edited lease", func(t *testing.T, d *Dir, path string) string {
			rewrite(t, path, `"lease":"7"`, `"lease":"8"`)
			return path
		}, `it is of "0000000000000008-3"`},
		{"another boot", func(t *testing.T, d *Dir, path string) string {
			rewrite(t, path, d.boot, strings.Map(func(r rune) rune {
				if r == '-' {
					return r
				}
				return '0'
			}, d.boot))
			return path
		}, "another boot"},
		{"another user", func(t *testing.T, d *Dir, path string) string {
			rewrite(t, path, fmt.Sprintf(`"uid":%d`, os.Getuid()), fmt.Sprintf(`"uid":%d`, os.Getuid()+1))
			return path
		}, "it is of user"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDir(t)
			f := publish(t, d, left(7))
			die(f)
			claimed := tt.do(t, d, in(d, f.name))
			at, err := Open(filepath.Dir(claimed))
			require.NoError(t, err)
			_, err = at.Claim(filepath.Base(claimed))
			require.ErrorContains(t, err, tt.want)
			_, err = os.Lstat(claimed)
			require.NoError(t, err, "it is left")
		})
	}
}

// rule: RC2
func TestAFileThatLivesIsNotClaimedWhateverBecomesOfItsName(t *testing.T) {
	d, other := newDir(t), newDir(t)
	f := publish(t, d, left(7))
	text, err := os.ReadFile(in(d, f.name))
	require.NoError(t, err)
	if err := os.Link(in(d, f.name), in(other, f.name)); err != nil {
		t.Skipf("two directories without links between them: %v", err)
	}
	require.NoError(t, os.Remove(in(d, f.name)))
	require.NoError(t, os.WriteFile(in(other, f.name), []byte(strings.Replace(string(text), `"owner":"ann"`, `"owner":"bob"`, 1)), 0o600))
	_, err = other.Claim(f.name)
	require.ErrorIs(t, err, ErrAlive)
	lost, err := f.Check()
	assert.False(t, lost, "a file that nobody finds harms nobody")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, f.Remove())
}

// rule: RC2
func TestADirectoryThatProvesNothingIsRefused(t *testing.T) {
	base := newDir(t).path
	path := filepath.Join(base, "d")
	d, err := Open(path)
	require.NoError(t, err, "it is made")
	require.NoError(t, d.f.Close())
	for _, mode := range []os.FileMode{0o755, 0o701, 0o770, 0o500} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := Open(path)
		require.ErrorContains(t, err, "its mode is 0"+fmt.Sprintf("%o", mode))
	}
	require.NoError(t, os.Chmod(path, 0o700))
	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(file)
	require.ErrorContains(t, err, "not a directory")
	_, err = Open(filepath.Join(base, "no", "parent"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open("")
	require.ErrorContains(t, err, "no directory")
	_, err = Open("/proc/self")
	require.Error(t, err)
	require.ErrorContains(t, checkFileSystem(unix.OVERLAYFS_SUPER_MAGIC), "overlayfs")
	require.ErrorContains(t, checkFileSystem(unix.NFS_SUPER_MAGIC), "0x6969")
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(path, 65534, 65534))
		_, err = Open(path)
		require.ErrorContains(t, err, "it belongs to user 65534")
	}
}

// rule: RC2
func TestABootIDThatIsNotTheKernelsIsRefused(t *testing.T) {
	masked := filepath.Join(newDir(t).path, "boot_id")
	require.NoError(t, os.WriteFile(masked, []byte("a672f320-2104-4969-b4e8-3486679c0263\n"), 0o600))
	_, err := bootID(masked)
	require.ErrorContains(t, err, "something is mounted on it")
	_, err = bootID("/proc/self/comm")
	require.ErrorContains(t, err, "/proc/self/comm has")
	_, err = bootID(masked + "x")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// rule: RC5
func TestOfSixteenReclaimersOneHasTheProof(t *testing.T) {
	const reclaimers, files = 16, 50
	d := newDir(t)
	for i := range files {
		die(publish(t, d, left(int64(i+1))))
	}
	var mu sync.Mutex
	claims := map[string]int{}
	var all sync.WaitGroup
	for range reclaimers {
		other := again(t, d)
		all.Go(func() {
			names, err := other.Names()
			assert.NoError(t, err)
			for _, name := range names {
				c, err := other.Claim(name)
				if err != nil {
					continue
				}
				mu.Lock()
				claims[name]++
				mu.Unlock()
				assert.NoError(t, c.remove())
			}
		})
	}
	all.Wait()
	assert.Len(t, claims, files)
	for name, n := range claims {
		assert.Equal(t, 1, n, name)
	}
	names, err := d.Names()
	require.NoError(t, err)
	assert.Empty(t, names)
}

// rule: RC5
func TestAFileIsThereUntilItIsRemovedAndLockedUntilThen(t *testing.T) {
	d := newDir(t)
	f := publish(t, d, left(7))
	is := f.is
	f.is.inode++ // another file has the name now, and is not this one's to remove
	require.NoError(t, f.Remove())
	_, err := os.Stat(in(d, f.name))
	require.NoError(t, err)
	require.NoError(t, f.Remove(), "again")
	c, err := d.Claim(f.name)
	require.NoError(t, err)
	assert.Equal(t, is, c.is)
	require.NoError(t, c.remove())
	require.NoError(t, c.remove(), "again")
}

// "." is a name that no file can be unlinked by.
// rule: RC5
func TestWhatCannotBeRemovedStaysLocked(t *testing.T) {
	d := newDir(t)
	f := publish(t, d, left(7))
	die(f)
	c, err := d.Claim(f.name)
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(d.fd(), &st))
	c.name, c.is = ".", identityOf(&st)
	require.ErrorContains(t, c.remove(), "remove . in")
	c.LetGo()
	_, err = d.Claim(f.name)
	require.ErrorIs(t, err, ErrAlive)
}

func TestAProcessLeavesSoManyFilesAndNoMore(t *testing.T) {
	d := newDir(t)
	before := published.Load()
	var all []*File
	for i := range Most {
		all = append(all, publish(t, d, left(int64(i+1))))
	}
	_, err := d.Publish(left(1000))
	require.ErrorContains(t, err, "256 files, which is the most")
	require.NoError(t, all[0].Remove())
	publish(t, d, left(1000))
	for _, f := range all {
		require.NoError(t, f.Remove())
	}
	_, err = d.Publish(left(1000))
	require.ErrorContains(t, err, "file exists")
	_, err = d.Publish(Left{Owner: strings.Repeat("x", maxSize)})
	require.ErrorContains(t, err, "want at most")
	assert.Equal(t, before+1, published.Load())
	names, err := os.ReadDir(d.path)
	require.NoError(t, err)
	assert.Len(t, names, 1)
}

func TestWhatADyingPublisherHasLeftIsRemovedOnceItIsOld(t *testing.T) {
	d := newDir(t)
	for _, name := range []string{".young", ".old", ".locked"} {
		require.NoError(t, os.WriteFile(in(d, name), nil, 0o600))
		if name != ".young" {
			long := time.Now().Add(-time.Hour)
			require.NoError(t, os.Chtimes(in(d, name), long, long))
		}
	}
	fd, err := d.open(".locked", unix.O_RDONLY)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, flock(fd, unix.LOCK_EX))
	names, err := d.Names()
	require.NoError(t, err)
	assert.Empty(t, names)
	for name, there := range map[string]bool{".young": true, ".old": false, ".locked": true} {
		_, err := os.Stat(in(d, name))
		assert.Equal(t, there, err == nil, name)
	}
}

// rule: RC6
func TestAFileThatIsNotLockedAnyMoreIsNoticed(t *testing.T) {
	d := newDir(t)
	f := publish(t, d, left(7))
	die(f)
	lost, err := f.Check()
	assert.True(t, lost)
	require.Error(t, err)
	require.NoError(t, os.Rename(in(d, f.name), in(d, "x")))
	require.NoError(t, os.WriteFile(in(d, f.name), nil, 0o600))
	lost, err = f.Check()
	assert.False(t, lost)
	require.ErrorContains(t, err, "another file has the name")
}

func FuzzAnyContentIsRefusedOrWhole(f *testing.F) {
	text, err := encode(left(7), place{"b", 1, 2, 3, left(7).name()})
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"pawl":1}{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, p, err := decode(text)
		if err != nil {
			assert.Zero(t, l)
			return
		}
		text, err = encode(l, p)
		require.NoError(t, err)
		l2, p2, err := decode(text)
		require.NoError(t, err)
		assert.Equal(t, l, l2)
		assert.Equal(t, p, p2)
	})
}

func BenchmarkPublishAndRemove(b *testing.B) {
	d := newDir(b)
	for b.Loop() {
		f, err := d.Publish(left(7))
		require.NoError(b, err)
		require.NoError(b, f.Remove())
	}
}

func BenchmarkCheck(b *testing.B) {
	f := publish(b, newDir(b), left(7))
	for b.Loop() {
		_, err := f.Check()
		require.NoError(b, err)
	}
}
