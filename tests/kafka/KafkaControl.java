import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringSerializer;

// A long-running JVM that controls the broker for the tests, because each of Kafka's own tools takes seconds to start.
// Reads one command per line and prints one line per command: "ok TEXT" or "error TEXT".
public final class KafkaControl {
    private final Admin admin;
    private final KafkaProducer<String, String> producer;

    private KafkaControl(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("default.api.timeout.ms", "60000");
        admin = Admin.create(settings);
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    public static void main(String[] arguments) throws Exception {
        KafkaControl control = new KafkaControl(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = "ok " + control.perform(line.split(" "));
            } catch (Exception failure) {
                answer = "error " + String.valueOf(failure).replace('\n', ' ');
            }
            System.out.println(answer);
        }
    }

    private String perform(String[] words) throws Exception {
        switch (words[0]) {
            case "wait": // until the broker responds
                return admin.describeCluster().clusterId().get();
            case "topic": // topic NAME
                admin.createTopics(List.of(new NewTopic(words[1], 1, (short) 1))).all().get();
                return words[1];
            case "grant": // grant PRINCIPAL TOPIC|- GROUP|-
                return grant(words[1], words[2], words[3]);
            case "withdraw": // withdraw PRINCIPAL
                return withdraw(words[1]);
            case "produce": // produce TOPIC FROM COUNT: the numbers as text
                return produce(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
            case "committed": // committed GROUP TOPIC
                return committed(words[1], words[2]);
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private String grant(String principal, String topic, String group) throws Exception {
        List<AclBinding> bindings = new ArrayList<>();
        AccessControlEntry read =
            new AccessControlEntry("User:" + principal, "*", AclOperation.READ, AclPermissionType.ALLOW);
        if (!topic.equals("-")) {
            bindings.add(new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL), read));
        }
        if (!group.equals("-")) {
            bindings.add(new AclBinding(new ResourcePattern(ResourceType.GROUP, group, PatternType.LITERAL), read));
        }
        admin.createAcls(bindings).all().get();
        return String.valueOf(bindings.size());
    }

    private String withdraw(String principal) throws Exception {
        AclBindingFilter all = new AclBindingFilter(
            ResourcePatternFilter.ANY,
            new AccessControlEntryFilter("User:" + principal, null, AclOperation.ANY, AclPermissionType.ANY));
        return String.valueOf(admin.deleteAcls(List.of(all)).all().get().size());
    }

    private String produce(String topic, long from, long count) throws Exception {
        for (long number = from; number < from + count; ++number) {
            producer.send(new ProducerRecord<>(topic, String.valueOf(number)));
        }
        producer.flush();
        return String.valueOf(count);
    }

    private String committed(String group, String topic) throws Exception {
        long sum = 0;
        for (var entry : admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet()) {
            if (entry.getKey().topic().equals(topic)) {
                sum += entry.getValue().offset();
            }
        }
        return String.valueOf(sum);
    }
}
