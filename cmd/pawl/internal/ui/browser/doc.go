// Package browser tests the page of pawl ui in a real Chromium, without a window,
// against an etcd in memory; and makes the pictures in docs/reference/ui. It is a module of
// its own, so that the browser's driver comes with nothing but these tests.
//
// Where Chromium is not installed they are skipped, and PAWL_SKIPPED=FILE has the
// notice appended to a file; PAWL_REQUIRE_CHROMIUM makes that a failure.
package browser
