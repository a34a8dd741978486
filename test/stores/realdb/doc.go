// Package realdb starts database servers for tests. They are PostgreSQL and MariaDB, from the programs
// installed on the machine, run as an unprivileged user, in a temporary directory, on a unix socket and
// nothing else. A server is started at its first use in a test binary and shared. TestMain calls Main,
// which ends them.
//
// A server that is not installed skips the test, and Main says so when all is done.
// PAWL_REQUIRE_STORES=1 in the environment makes a missing one a failure. PAWL_SKIPPED=FILE appends the
// notice to a file, since go test shows no output of packages that pass.
package realdb
