package offload

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type config = map[string]string

func TestPlanSettings_SetsUndoesAndRestarts(t *testing.T) {
	on := config{"hw-offload": "true"}
	cases := map[string]struct {
		have    Observed
		want    config
		set     config
		undo    config
		restart []string
	}{
		"on":                 {Observed{}, on, on, config{"hw-offload": ""}, []string{"hw-offload"}},
		"is on":              {Observed{OtherConfig: on}, on, config{}, config{}, nil},
		"on, not restarted":  {Observed{OtherConfig: on, Running: config{}}, on, config{}, config{}, []string{"hw-offload"}},
		"off":                {Observed{OtherConfig: on}, config{"hw-offload": ""}, config{"hw-offload": ""}, on, []string{"hw-offload"}},
		"default spelt out":  {Observed{}, config{"hw-offload": "false"}, config{"hw-offload": "false"}, config{"hw-offload": ""}, nil},
		"others stay":        {Observed{OtherConfig: config{"stats-update-interval": "5"}}, config{}, config{}, config{}, nil},
		"at once":            {Observed{OtherConfig: on}, config{"max-idle": "20000"}, config{"max-idle": "20000"}, config{"max-idle": ""}, nil},
		"policy while on":    {Observed{OtherConfig: on}, config{"tc-policy": "skip_sw"}, config{"tc-policy": "skip_sw"}, config{"tc-policy": ""}, []string{"tc-policy"}},
		"policy while off":   {Observed{}, config{"tc-policy": "skip_sw"}, config{"tc-policy": "skip_sw"}, config{"tc-policy": ""}, nil},
		"the default policy": {Observed{OtherConfig: on}, config{"tc-policy": "none"}, config{"tc-policy": "none"}, config{"tc-policy": ""}, nil},
		"both":               {Observed{}, config{"hw-offload": "true", "tc-policy": "skip_hw"}, config{"hw-offload": "true", "tc-policy": "skip_hw"}, config{"hw-offload": "", "tc-policy": ""}, []string{"hw-offload", "tc-policy"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			plan, err := PlanSettings(c.have, c.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(SettingsPlan{Set: c.set, Undo: c.undo, Restart: c.restart}, plan); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			// Applied and restarted, nothing is left to do; undone, it is as it was.
			after := merge(c.have.OtherConfig, plan.Set)
			again, err := PlanSettings(Observed{OtherConfig: after, Running: after}, c.want)
			if err != nil || len(again.Set) > 0 || len(again.Restart) > 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
			if diff := cmp.Diff(merge(c.have.OtherConfig, nil), merge(after, plan.Undo)); diff != "" {
				t.Errorf("undone: -before +after\n%s", diff)
			}
		})
	}
}

// merge is what the database does with a plan.
func merge(have, set config) config {
	out := config{}
	maps.Copy(out, have)
	maps.Copy(out, set)
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out
}

func TestPlanSettings_RefusesInvalidValues(t *testing.T) {
	for name, want := range map[string]config{
		"word":      {"hw-offload": "yes"},
		"policy":    {"tc-policy": "skip-sw"},
		"number":    {"max-idle": "10s"},
		"zero":      {"flow-limit": "0"},
		"rebalance": {"hw-offload": "true", "offload-rebalance": "true"},
	} {
		if plan, err := PlanSettings(Observed{}, want); err == nil {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

func TestSettings_RunningValuesAreInForce(t *testing.T) {
	on := config{"hw-offload": "true", "tc-policy": "skip_sw"}
	for name, c := range map[string]struct {
		have Observed
		want Settings
	}{
		"nothing":         {Observed{}, Settings{Policy: "none"}},
		"on":              {Observed{OtherConfig: on}, Settings{HWOffload: true, Policy: "skip_sw"}},
		"on since":        {Observed{OtherConfig: on, Running: config{}}, Settings{HWOffload: true, RestartDue: true, Policy: "none"}},
		"off, still runs": {Observed{OtherConfig: config{}, Running: on}, Settings{HWOffload: true, Policy: "skip_sw"}},
	} {
		if diff := cmp.Diff(c.want, c.have.Settings()); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
