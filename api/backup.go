package api

// Backup is what a backup holds.
type Backup struct {
	Taken         Time     `json:"taken"`         // the moment that it shows
	Version       string   `json:"version"`       // of the program that made it
	Topics        int      `json:"topics"`        // those of subscriptions not included
	Groups        int      `json:"groups"`        // those of subscriptions included
	Subscriptions int      `json:"subscriptions"` //
	StorageTopics int      `json:"storage_topics"`
	Records       int64    `json:"records"` // in all storage topics, journals and dead letters included
	Files         int      `json:"files"`
	Bytes         int64    `json:"bytes"`            // of the files
	Damage        []string `json:"damage,omitempty"` // that was in the directory, and is in the backup
}
