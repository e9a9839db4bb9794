// Package snapshot is what the plugin of kubectl knows of a cluster at one moment: objects of the API server, cut down to an
// allow-list of fields.
//
// Place in the data flow:
//
//	API server or archive of sysdump -> Snapshot -> pkg/answer -> text or JSON
//
// The cut is made while reading, so that an answer is the same from the API server and from an archive, and so that an
// archive has no secret: what no answer needs is not there.
package snapshot
