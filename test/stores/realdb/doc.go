// Package realdb starts database servers for tests: PostgreSQL and MariaDB, from the programs installed on the machine, as an unprivileged user, in
// a directory of their own, on a unix socket and nothing else. A server is started at its first use in a test binary and shared; TestMain
// calls Main, which ends them.
//
// A server that is not installed skips the test, and Main says so when all is done. Two variables of the environment: PAWL_REQUIRE_STORES=1 makes
// a missing one a failure, and PAWL_SKIPPED=FILE appends the notice to a file, since go test shows no output of packages that pass.
package realdb
