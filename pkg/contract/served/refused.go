package served

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// refusedAnnotations are the annotations of the table that have no effect, by key.
var refusedAnnotations = sync.OnceValue(func() map[string][]Annotation { //nolint:gochecknoglobals // made once from constants
	out := map[string][]Annotation{}
	for _, a := range Annotations() {
		if a.State == Refused {
			out[a.Key] = append(out[a.Key], a)
		}
	}
	return out
})

// MaxValue is how many bytes of a value are looked at.
const MaxValue = 64

// IsRefused says that an annotation has no effect on objects of some kind.
func IsRefused(key string) bool { return len(refusedAnnotations()[key]) > 0 }

// Refusals say which annotations of an object have no effect, in the order of their keys; nil for most objects.
func Refusals(kind string, annotations map[string]string) (sentences []string) {
	for key, value := range annotations {
		for _, a := range refusedAnnotations()[key] {
			if slices.Contains(a.On, kind) && (a.Asks == "" || a.Asks == value) {
				sentences = append(sentences, a.refusal(value))
			}
		}
	}
	slices.Sort(sentences)
	return sentences
}

func (a Annotation) refusal(value string) string {
	if a.Check != nil {
		if err := a.Check(value); err != nil {
			return fmt.Sprintf("annotation %s has no effect, and its value is wrong: %v", a.Key, err)
		}
	}
	return fmt.Sprintf("annotation %s has no effect: %s", a.Key, a.Note)
}

// isBandwidth fails for values that Kubernetes does not take for a bandwidth: bits a second, from 1k to 1P.
func isBandwidth(value string) error {
	quantity, err := resource.ParseQuantity(value)
	if err != nil {
		return fmt.Errorf("%.*q is not a quantity such as 10M", MaxValue, value)
	}
	if quantity.Cmp(resource.MustParse("1k")) < 0 || quantity.Cmp(resource.MustParse("1P")) > 0 {
		return fmt.Errorf("%s is not between 1k and 1P", quantity.String())
	}
	return nil
}
