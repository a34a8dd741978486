// Package browser tests the page of pawl ui in a real Chromium, without a window, against an etcd
// in memory. It also makes the pictures in docs/reference/ui. It is a separate module, so that only
// these tests depend on the browser's driver.
//
// If Chromium is not installed, the tests are skipped, and PAWL_SKIPPED=FILE makes them append the
// notice to a file. PAWL_REQUIRE_CHROMIUM makes that a failure.
package browser
