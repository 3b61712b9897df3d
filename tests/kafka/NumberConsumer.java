import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

// A typical consumer: reads with the agent's client.properties and commits what it has written to standard output.
// (kcat's group mode drops one message when it is stopped.) On SIGTERM it leaves the group and exits.
public final class NumberConsumer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            settings.load(file);
        }
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(arguments[1]));
        try (consumer) {
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                StringBuilder lines = new StringBuilder();
                for (ConsumerRecord<String, String> record : records) {
                    lines.append(record.value()).append('\n');
                }
                System.out.print(lines);
                System.out.flush();
                consumer.commitSync();
            }
        } catch (WakeupException ended) {
            // stopped; the next consumer reads again what was written but not committed
        }
    }
}
