package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

func TestTheDoctorKnowsWhereAStateDirectoryDoesNotLast(t *testing.T) {
	on := func(kind int64) string { return notes(func(d *doctor) { d.stateOn("/dir", kind) }) }
	assert.Empty(t, on(unix.EXT4_SUPER_MAGIC))
	assert.Contains(t, on(unix.OVERLAYFS_SUPER_MAGIC), "look  state      /dir: is on overlayfs, which is a container's own layer")
	assert.Contains(t, on(unix.TMPFS_MAGIC), "look  state      /dir: is in memory")
}
