package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// Permission to write is asked for without a write; what is missing is named.
func TestTheDoctorFindsMissingPermissionsAndAFullDisk(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartClusterWith(t, 1, etcdtest.ClusterOptions{Options: etcdtest.Options{QuotaBytes: 16 << 20}})
	c.AddUser(t, "ann", "pw", etcdtest.Access{Prefix: "//pawl/", Read: true, Write: true}, etcdtest.Access{Prefix: "jobs/", Read: true, Write: true},
		etcdtest.Access{Prefix: "/jobs%2F", Read: true}, etcdtest.Access{Prefix: "seen/", Read: true})
	c.EnableAuth(t, "pw")
	before := c.Revision(t)
	look := func(user, prefix string) (string, int) {
		args := []string{"doctor", prefix}
		if user != "" {
			args = append(args, "--user", user+":pw")
		}
		p := begin(t, c.Member(0).Endpoint(), args...)
		out := p.lines()
		var lines []string
		for out.Scan() {
			lines = append(lines, out.Text())
		}
		return strings.Join(lines, "\n"), p.code(t)
	}
	said, code := look("ann", "jobs/")
	assert.Regexp(t, `look  permission keys from "/jobs%2F": this user may not write all of them`, said, "a lock jobs/42 lies there, and not below jobs/")
	assert.NotContains(t, said, `keys from "jobs/"`)
	assert.Equal(t, 0, code, said)
	said, code = look("ann", "seen/")
	assert.Contains(t, said, `keys from "seen/": this user may not write all of them`)
	assert.NotContains(t, said, `"seen/": this user may not read all`)
	assert.Equal(t, 1, code)
	said, _ = look("ann", "other/")
	assert.Contains(t, said, `keys from "other/": this user may not read all of them`)
	assert.Regexp(t, regexp.MustCompile(`request .*permission denied.*needs read on all keys`), said)
	assert.Equal(t, before, c.Revision(t), "the doctor has written")

	said, code = look("root", "")
	assert.Contains(t, said, `this user may read and write the keys from "//pawl/" and from ""`, "without a namespace and a PREFIX")
	assert.Equal(t, 0, code, said)
	assert.Equal(t, before, c.Revision(t), "the doctor has written")

	c.DisableAuth(t)
	c.FillQuota(t)
	said, code = look("", "")
	require.Contains(t, said, "NOSPACE")
	assert.Contains(t, said, "no lease is granted: the database is full")
	assert.Equal(t, 1, code)
}
