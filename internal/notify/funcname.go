package notify

import (
	"reflect"
	"runtime"
)

// FuncName is the name of a function of the program, such as main.lead, or main.main.func1 of a literal. It
// is for people to read.
func FuncName(f any) string {
	if v := reflect.ValueOf(f); v.Kind() == reflect.Func && !v.IsNil() {
		if at := runtime.FuncForPC(v.Pointer()); at != nil {
			return at.Name()
		}
	}
	return "a function"
}
