package cli

import (
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/topic"
)

// checkedLog is what "log check" found, as people and programs read it.
type checkedLog struct {
	Topics []checkedTopic `json:"topics"`
}

type checkedTopic struct {
	Topic      string            `json:"topic"` // the storage topic
	Dir        string            `json:"dir"`
	Partitions int               `json:"partitions"`
	Retention  topic.Retention   `json:"retention"`
	State      string            `json:"state"`
	Sealed     bool              `json:"sealed"`
	Frames     int64             `json:"frames"`
	Records    int64             `json:"records"`
	Bytes      int64             `json:"bytes"`
	Next       []int64           `json:"next"` // by partition
	Segments   []checkedSegment  `json:"segments"`
	Damage     []damageOfSegment `json:"damage"`
}

type checkedSegment struct {
	filelog.SegmentReport
	Created string `json:"created"`
}

type damageOfSegment = filelog.DamageReport

func checkedTopics(found *filelog.Report) checkedLog {
	log := checkedLog{Topics: make([]checkedTopic, len(found.Topics))}
	for i := range found.Topics {
		t, c := &found.Topics[i], &found.Topics[i].Config
		v := checkedTopic{
			Topic: c.Name, Dir: t.Dir, Partitions: c.Partitions, State: soundness(t),
			Retention: topic.Retention{Bytes: c.RetentionBytes, AgeMS: c.RetentionAgeMillis, Force: c.RetentionForce},
			Sealed:    t.Sealed, Frames: t.Frames, Records: t.Records,
			Next: t.Next, Damage: append([]damageOfSegment{}, t.Damage...),
			Segments: make([]checkedSegment, len(t.Segments)),
		}
		for n, s := range t.Segments {
			v.Segments[n] = checkedSegment{s, timeOf(s.Created)}
			v.Bytes += s.End
		}
		log.Topics[i] = v
	}
	return log
}

func soundness(t *filelog.TopicReport) string {
	if n := len(t.Damage); n > 0 {
		return plural(int64(n), "damaged place")
	}
	state := "sound"
	if t.Sealed {
		state += ", sealed"
	}
	return state
}

func checkTable(r *report, log checkedLog) {
	var rows [][]cell
	for i := range log.Topics {
		t := &log.Topics[i]
		rows = append(rows, []cell{
			left(t.Topic), number(int64(t.Partitions)), number(int64(len(t.Segments))), number(t.Frames), number(t.Records), number(t.Bytes),
			alarmIf(len(t.Damage) > 0, left(t.State)),
		})
	}
	r.table([]string{"TOPIC", "PARTITIONS", "SEGMENTS", "FRAMES", "RECORDS", "BYTES", "STATE"}, rows)
	for i := range log.Topics {
		for _, d := range log.Topics[i].Damage {
			r.line("%s", damageText(log.Topics[i].Topic, d))
		}
	}
}
