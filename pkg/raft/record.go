package raft

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// RecordMap is the ConfigMap of the records: a key for each database.
const RecordMap = "ovn-raft"

// records reads and writes the record of one database.
type records struct {
	client    *api.Client
	namespace string
	key       string
}

// read asks the API server for the record, and returns the ConfigMap, if there is one, for a later write.
func (r records) read(ctx context.Context) (Record, *corev1.ConfigMap, error) {
	object, err := r.client.ConfigMaps(r.namespace).Get(ctx, RecordMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Record{}, nil, nil
	}
	if err != nil {
		return Record{}, nil, fmt.Errorf("reading the record of the clusters: %w", err)
	}
	var record Record
	if text := object.Data[r.key]; text != "" {
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			return Record{}, nil, fmt.Errorf("key %s of ConfigMap %s: %w", r.key, RecordMap, err)
		}
	}
	return record, object, nil
}

// write fails if the ConfigMap has changed since it was read.
func (r records) write(ctx context.Context, object *corev1.ConfigMap, record Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	maps := r.client.ConfigMaps(r.namespace)
	if object == nil {
		object = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: RecordMap, Namespace: r.namespace}, Data: map[string]string{r.key: string(text)},
		}
		_, err = maps.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object = object.DeepCopy()
		if object.Data == nil {
			object.Data = map[string]string{}
		}
		object.Data[r.key] = string(text)
		_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("recording the member: %w", err)
	}
	return nil
}
