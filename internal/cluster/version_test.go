package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// F13.
func TestVersionsThatBreakARuleAreKnown(t *testing.T) {
	for version, bad := range map[string]bool{
		"2.3.8": true, "3.3.27": true, "3.4.0": true, "3.4.44": true, "3.5.0": true, "3.5.27": true, "3.5.28": false, "3.5.28-rc.0": true,
		"3.5.99": false, "3.6.0": true, "3.6.8": true, "3.6.9-rc.1": true, "3.6.9": false, "3.6.0-alpha.0": true, "3.7.0-alpha.0": true,
		"3.7.0-rc.1": true, "3.7.0": false, "3.7.3": false, "3.7.3+git": false, "3.8.0-alpha.0": false, "4.0.0": false,
		"": true, "3.7": true, "three": true, "3.x.1": true,
	} {
		assert.Equal(t, bad, VersionFault(version) != "", version)
	}
	assert.Contains(t, VersionFault("3.3.1"), "not supported")
	assert.Contains(t, VersionFault("3.4.44"), "known bugs")
}
